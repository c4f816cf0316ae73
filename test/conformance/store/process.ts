/**
 * A process beside the test's own that writes to a store. Bundled by the suite with the store under test as
 * `./factory.mjs`; one line of JSON on standard output per thing done.
 */
import type { NewRunEvent } from '../../../domain/run/event.ts';
import type { OpenedRuns } from './opened-runs.ts';

export type ProcessTask =
  /** Appends notices one by one; prints how many were new. */
  | {
      readonly kind: 'notices';
      readonly runId: string;
      readonly prefix: string;
      readonly count: number;
      readonly pauseMs: number;
    }
  /**
   * Appends output pieces without end, and prints each cursor that the store accepts; prints the error's code after a
   * refusal.
   */
  | {
      readonly kind: 'flood';
      readonly runId: string;
      readonly execKey: string;
      readonly fence: number;
      readonly pieceBytes: number;
    }
  /** Reads everything; prints the number of events and the number of characters of output. */
  | { readonly kind: 'read'; readonly runId: string };

interface Factory {
  readonly open: (location: string) => Promise<OpenedRuns>;
}

async function main(): Promise<void> {
  const [location, taskText] = process.argv.slice(2);
  if (location === undefined || taskText === undefined) throw new Error('usage: process.mjs LOCATION TASK');
  const { open } = (await import(new URL('./factory.mjs', import.meta.url).href)) as Factory;
  const store = await open(location);
  const task = JSON.parse(taskText) as ProcessTask;
  if (task.kind === 'notices') return notices(store, task);
  if (task.kind === 'flood') return flood(store, task);
  return read(store, task.runId);
}

async function notices(store: OpenedRuns, task: Extract<ProcessTask, { kind: 'notices' }>): Promise<void> {
  let fresh = 0;
  for (let index = 0; index < task.count; index++) {
    fresh += await store.append(task.runId, [notice(`${task.prefix}/${index}`)]);
    if (task.pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, task.pauseMs));
  }
  say({ fresh });
}

async function flood(store: OpenedRuns, task: Extract<ProcessTask, { kind: 'flood' }>): Promise<void> {
  const writer = { execKey: task.execKey, fence: task.fence };
  try {
    await store.append(task.runId, [], writer);
    for (let from = await store.outputCursor(task.runId, task.execKey, 'stdout'); ; from += task.pieceBytes) {
      await store.append(task.runId, [piece(task.execKey, from, task.pieceBytes)], writer);
      say({ stored: from + task.pieceBytes });
      // Yields, so that the line gets out: a test cannot watch a flood that never yields.
      await new Promise((resolve) => setImmediate(resolve));
    }
  } catch (error) {
    say({ refused: error instanceof Error && 'code' in error ? error.code : String(error) });
  }
}

async function read(store: OpenedRuns, runId: string): Promise<void> {
  let events = 0;
  let characters = 0;
  for await (const event of store.read(runId, 0)) {
    events++;
    if (event.body.type === 'output') characters += event.body.data.length;
  }
  say({ events, characters });
}

function notice(id: string): NewRunEvent {
  return { id, atMs: Date.now(), body: { type: 'notice', level: 'info', message: id } };
}

/** Every byte shows its position, so that a test finds a lost or doubled byte. */
function piece(execKey: string, from: number, bytes: number): NewRunEvent {
  const data = Array.from({ length: bytes }, (_, index) => String.fromCharCode(97 + ((from + index) % 26))).join('');
  return {
    id: `exec/${execKey}/stdout/${from}`,
    atMs: Date.now(),
    body: { type: 'output', stage: 'a', execKey, stream: 'stdout', from, to: from + bytes, encoding: 'utf8', data },
  };
}

function say(value: unknown): void {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

await main();
