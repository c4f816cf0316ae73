/** The recorded histories of the replay tests, and how they are replayed. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { DefaultLogger, Runtime, Worker } from '@temporalio/worker';

const FOLDER = fileURLToPath(new URL('histories', import.meta.url));

/** Names of the histories: ids of their runs. */
export const HISTORIES = readdirSync(FOLDER)
  .filter((name) => name.endsWith('.json'))
  .map((name) => name.replace(/\.json$/, ''));

/** Once in a process, which has one runtime of the SDK. A failed replay is an error of the test, not a line of the log. */
export function silenceWorkers(): void {
  Runtime.install({
    logger: new DefaultLogger('ERROR', () => undefined),
    telemetryOptions: { logging: { filter: 'ERROR', forward: {} } },
  });
}

/** Replays the histories in their order, each when its result is asked for. One worker loads the bundle once for all. */
export function replay(code: string, names: readonly string[]): ReturnType<typeof Worker.runReplayHistories> {
  return Worker.runReplayHistories({ workflowBundle: { code } }, read(names));
}

function* read(names: readonly string[]): Iterable<{ readonly workflowId: string; readonly history: unknown }> {
  for (const name of names)
    yield { workflowId: name, history: JSON.parse(readFileSync(join(FOLDER, `${name}.json`), 'utf8')) };
}
