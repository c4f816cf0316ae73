import { InvalidArgumentError } from 'commander';
import { askTokenService } from '../../../app/access/token-service.ts';
import { createUsageError } from '../../../app/app-error.ts';
import { isRunId } from '../../../domain/run/run-id.ts';
import { quoteRunId } from '../../../domain/run/run-id.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { parseDurationMs } from '../../../domain/units/duration.ts';
import { defineCommand } from '../../command.ts';
import { parseTriggered } from '../../deliveries/answers.ts';
import { awaitTriggered } from '../../deliveries/await-triggered.ts';
import { EXIT } from '../../exit-code.ts';
import { parseParam } from '../../start/spec-options.ts';
import { parseTypedTime } from '../../schedules/typed-time.ts';
import { readTypedInput } from '../../start/typed-input.ts';

interface Options {
  readonly input?: string;
  readonly param?: Readonly<Record<string, string>>;
  readonly at?: string;
  readonly after?: number;
  readonly ttl?: number;
  readonly wait?: true;
  readonly json?: boolean;
}

export const command = defineCommand<Options>({
  help: {
    common: ['--input', '--param', '--wait'],
    examples: [
      ['voidbox trigger report --param month=2026-11', 'starts a run of the deployment `report`'],
      ['voidbox trigger report --input @data.json --wait', 'waits for its end and prints its result'],
      ['voidbox trigger report --at 2026-12-01T06:00 --ttl 2h', 'starts it at six, or not at all after eight'],
    ],
    notes: [
      ['A delivery', 'The service keeps the request as a delivery, so a crash loses no run and starts no second one.'],
    ],
    exitCodes: [
      ['0', 'the delivery is accepted; with --wait the run has succeeded'],
      ['1', 'with --wait: the run failed, or the delivery has started none'],
      ['2', 'an option has a mistake, or there is no such deployment'],
      ['3', 'environment: the service or its database does not answer'],
    ],
  },
  configure: (command) => {
    command
      .argument('<deployment>', 'the name of the deployment')
      .option('-i, --input <text>', 'the input of the run; @FILE reads a file, - reads standard input (default: empty)')
      .option('--param <name=value>', 'set a parameter of the spec; repeatable', parseParam)
      .option('--at <time>', 'start it at this time: 2026-12-01T06:00, with Z or +01:00 for a zone', parseTypedTime)
      .option('--after <duration>', 'start it after this time: 90s, 2h', parseAge)
      .option('--ttl <duration>', 'give up if it has not started this long after it could', parseAge)
      .option('--wait', 'wait for the end of the run and print its result');
  },
  async execute([deployment = ''], { input, param = {}, at, after, ttl, wait, json }, context) {
    if (at !== undefined && after !== undefined)
      throw createUsageError('--at and --after contradict each other', 'Use one of them.');
    const bytes = input === undefined ? undefined : await readTypedInput(input, context);
    const onProgress = (line: string): void => void context.stderr.write(`==> ${line}\n`);
    const answer = await askTokenService(context, {
      method: 'POST',
      path: ['deployments', deployment, 'runs'],
      body: {
        json: {
          params: param,
          ...(bytes === undefined ? {} : { input: decodeInput(bytes) }),
          ...(at === undefined ? {} : { at }),
          ...(after === undefined ? {} : { afterMs: after }),
          ...(ttl === undefined ? {} : { ttlMs: ttl }),
        },
      },
      onProgress,
    });
    const triggered = parseTriggered(answer);
    const runId = isRunId(triggered.runId) ? quoteRunId(triggered.runId) : '';
    if (wait === true) return await awaitTriggered(triggered, { json: json === true, onProgress }, context);
    if (json === true) {
      await context.stdout.write(`${JSON.stringify(triggered)}\n`);
      return EXIT.success;
    }
    await context.stdout.write(`${sanitizeLine(triggered.delivery)}\n`);
    await context.stderr.write(context.advise(`Its run: voidbox logs -f ${sanitizeLine(runId)}\n`));
    return EXIT.success;
  },
});

function decodeInput(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw createUsageError('the input is not UTF-8 text', 'Upload other bytes with `voidbox run`, or encode them.');
  }
}

function parseAge(text: string): number {
  const ms = parseDurationMs(text);
  if (ms !== null && ms > 0) return ms;
  throw new InvalidArgumentError('It must be a duration, such as 90s or 2h.');
}
