import { InvalidArgumentError, Option } from 'commander';
import type { RunEvent } from '../../domain/run/event.ts';
import { usageError } from '../cli-error.ts';
import { defineCommand } from '../command.ts';
import type { CliContext } from '../context.ts';
import { EXIT, type ExitCode } from '../exit-code.ts';
import { readMendedViews } from '../mend-runs.ts';
import { createEventPrinter, outputBytes } from '../render/event-lines.ts';
import { findRunHere } from '../run-elsewhere.ts';

interface Options {
  readonly follow?: boolean;
  readonly stage?: string;
  readonly stream: 'stdout' | 'stderr' | 'both';
  readonly since: number;
  readonly raw?: boolean;
  readonly json?: boolean;
}

export const command = defineCommand<Options>({
  configure: (command) => {
    command
      .argument('<run>', 'its id, the beginning of it, or `latest`')
      .option('-f, --follow', 'go on until the run ends')
      .option('-s, --stage <stage>', 'only this stage, without its name before each line')
      .addOption(
        new Option('--stream <stream>', 'only one of the streams')
          .choices(['stdout', 'stderr', 'both'])
          .default('both'),
      )
      .option('--since <seq>', 'only events after this number', cursor, 0)
      .option('--raw', 'the bytes as the stage wrote them, escape sequences included');
  },
  async execute([text = ''], options, context) {
    if (options.raw && options.json) throw usageError('--raw and --json exclude each other');
    const runId = await findRunHere('logs', text, context);
    const [view] = await readMendedViews([runId], context);
    if (
      options.stage !== undefined &&
      view !== undefined &&
      view.stages.length > 0 &&
      !view.stages.some((stage) => stage.id === options.stage)
    ) {
      throw usageError(
        `run ${runId} has no stage \`${options.stage}\``,
        `Its stages: ${view.stages.map((stage) => stage.id).join(', ')}`,
      );
    }
    const detach = new AbortController();
    const listening = context.onInterrupt(() => detach.abort());
    const writer = createLogWriter(options, context);
    try {
      if (options.follow && view?.outcome === null && view.damage === null)
        await follow(runId, detach.signal, options, writer, context);
      else {
        const { reader } = await context.stores();
        for await (const event of reader.read(runId, options.since)) {
          if (detach.signal.aborted) break;
          await writer.write(event);
        }
      }
    } finally {
      // Of a run that is damaged, what was read before that is printed to its end.
      await writer.end();
      listening.dispose();
    }
    return detach.signal.aborted ? EXIT.interrupted : EXIT.success;
  },
});

/** Following keeps the embedded stack alive, as `run` does: a run does not stand still while somebody looks at it. */
async function follow(
  runId: string,
  signal: AbortSignal,
  options: Options,
  writer: LogWriter,
  context: CliContext,
): Promise<ExitCode> {
  const { openServerLink } = await import('../../client/server-link.ts');
  const { followRun } = await import('../follow.ts');
  const note = (line: string): void => void context.stderr.write(`==> ${line}\n`);
  const link = await openServerLink(context, { start: true, onProgress: note });
  if (link === null) throw new Error('the embedded stack was not started');
  const onEvent = (event: RunEvent): Promise<void> =>
    event.seq > options.since ? writer.write(event) : Promise.resolve();
  await followRun({
    runId,
    stores: await context.stores(),
    link,
    isHere: true,
    stateDir: context.env.stateDir,
    signal,
    onEvent,
    onTrouble: (message) => note(`trouble, trying on: ${message}`),
  });
  return EXIT.success;
}

interface LogWriter {
  write(event: RunEvent): Promise<void>;
  end(): Promise<void>;
}

function createLogWriter(options: Options, { stdout }: CliContext): LogWriter {
  const isWanted = ({ body }: RunEvent): boolean => {
    if (options.stage !== undefined && !('stage' in body && body.stage === options.stage)) return false;
    return body.type !== 'output' || options.stream === 'both' || options.stream === body.stream;
  };
  if (options.json) {
    return {
      write: async (event) => void (isWanted(event) && (await stdout.write(`${JSON.stringify(event)}\n`))),
      end: () => Promise.resolve(),
    };
  }
  if (options.raw) {
    return {
      write: async (event) =>
        void (event.body.type === 'output' && isWanted(event) && (await stdout.write(outputBytes(event.body)))),
      end: () => Promise.resolve(),
    };
  }
  const printer = createEventPrinter({
    style: stdout.style,
    prefix: options.stage === undefined,
    states: () => options.stage === undefined,
    stream: options.stream,
  });
  const print = async (lines: readonly string[]): Promise<void> => {
    if (lines.length > 0) await stdout.write(lines.map((line) => `${line}\n`).join(''));
  };
  return {
    write: async (event) => void (isWanted(event) && (await print(printer.push(event)))),
    end: () => print(printer.flush()),
  };
}

function cursor(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError('It is the `seq` of an event, a number from 0.');
  return Number(text);
}
