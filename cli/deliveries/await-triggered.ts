/** Waits for the run of a delivery, on any machine. */
import { setTimeout as sleep } from 'node:timers/promises';
import { askTokenService } from '../../app/access/token-service.ts';
import { createForeignError } from '../access/answers.ts';
import { sanitize, sanitizeLine } from '../../domain/security/sanitize.ts';
import { ServiceError } from '../../http/service-error.ts';
import type { CliContext } from '../context.ts';
import { EXIT, type ExitCode } from '../exit-code.ts';
import type { TriggeredAnswer } from './answers.ts';

/** Less than the service lets a request wait. */
const WAIT_SECONDS = 50;
const PAUSE_MS = 500;
/** States in which the service decides again, or has started the run. */
const LIVE: ReadonlySet<unknown> = new Set(['accepted', 'held', 'starting', 'started']);

interface RunAnswer {
  readonly state: string;
  readonly outputText: string | null;
}

export interface AwaitOptions {
  readonly json: boolean;
  readonly onProgress: (line: string) => void;
}

/** Prints the result of the run, or the reason why the delivery starts no run. */
export async function awaitTriggered(
  { delivery, runId }: TriggeredAnswer,
  { json, onProgress }: AwaitOptions,
  context: CliContext,
): Promise<ExitCode> {
  const { stdout, stderr } = context;
  const ask = async (path: readonly string[], query = {}): Promise<Partial<Record<string, unknown>>> =>
    ((await askTokenService(context, { method: 'GET', path, query, onProgress })) ?? {}) as Partial<
      Record<string, unknown>
    >;
  for (;;) {
    const run = await ask(['runs', runId, 'result'], { wait: WAIT_SECONDS }).catch(ignoreAbsence);
    if (run !== null && run['state'] !== 'running') {
      const { state, outputText } = readRun(run);
      if (json) await stdout.write(`${JSON.stringify(run)}\n`);
      else if (state === 'succeeded')
        await stdout.write(outputText === null ? '' : sanitize(`${outputText.trimEnd()}\n`));
      else
        await stderr.write(
          context.advise(`The run has ${sanitizeLine(state)}: voidbox status ${sanitizeLine(runId)}\n`),
        );
      return state === 'succeeded' ? EXIT.success : EXIT.runFailed;
    }
    const row = await ask(['deliveries', delivery]);
    if (!LIVE.has(row['state'])) {
      const reason = typeof row['message'] === 'string' ? `: ${sanitizeLine(row['message'])}` : '';
      if (json) await stdout.write(`${JSON.stringify(row)}\n`);
      else await stderr.write(`The delivery starts no run: it is ${sanitizeLine(String(row['state']))}${reason}\n`);
      return EXIT.runFailed;
    }
    if (run === null) await sleep(PAUSE_MS);
  }
}

/** The run has no events yet. */
function ignoreAbsence(error: unknown): null {
  if (error instanceof ServiceError && error.code === 'api/no-run') return null;
  throw error;
}

function readRun({ state, outputText = null }: Partial<Record<string, unknown>>): RunAnswer {
  if (typeof state === 'string' && (outputText === null || typeof outputText === 'string'))
    return { state, outputText };
  throw createForeignError();
}
