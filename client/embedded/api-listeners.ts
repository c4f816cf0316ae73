/** How a stack listens for the HTTP API over TCP, as its supervisor answers. */
import { setTimeout as sleep } from 'node:timers/promises';
import { SetupError } from '../../setup/setup-error.ts';
import type { ListenState } from './control.ts';
import { askStack } from './control-client.ts';
import { readListenRecord } from './listen-file.ts';

const LIMIT_MS = 10_000;
const POLL_MS = 50;
const NOWHERE: ListenState = { phase: 'ready', problem: null, publicUrl: null, listeners: [] };

/** Returns null if no stack runs, or if it does not answer. */
export async function readListenState(stateDir: string): Promise<ListenState | null> {
  const asked = await askStack(stateDir, 'status');
  return asked.kind === 'answer' ? asked.answer.listen : null;
}

/**
 * Lets a stack that is up read `listen.json` again, and waits until it listens as the file says.
 * @throws SetupError if it cannot listen; the stack stays up
 */
export async function applyListenRecord(stateDir: string): Promise<ListenState> {
  const until = Date.now() + LIMIT_MS;
  let isTold = false;
  while (Date.now() < until) {
    const asked = await askStack(stateDir, isTold ? 'status' : 'listen');
    const answer = asked.kind === 'answer' ? asked.answer : null;
    // A stack that does not answer has nothing to change.
    if (answer === null && readListenRecord(stateDir) === null) return NOWHERE;
    isTold ||= answer !== null && answer.busy !== true;
    if (isTold && answer?.listen?.phase === 'ready') return requireListeners(answer.listen);
    await sleep(POLL_MS);
  }
  throw new SetupError(
    `the embedded stack did not change its listeners within ${LIMIT_MS / 1000} s`,
    'Try again, or restart it: voidbox down && voidbox up',
  );
}

function requireListeners(state: ListenState): ListenState {
  if (state.problem !== null)
    throw new SetupError(
      `the API does not listen: ${state.problem}`,
      'Write the addresses again: `voidbox up --listen HOST:PORT`, or `voidbox up --no-listen` to listen nowhere.',
    );
  const [failed] = state.listeners.filter(({ problem }) => problem !== null);
  if (failed === undefined) return state;
  throw new SetupError(
    `the API does not listen on ${failed.url}: ${failed.problem}`,
    'End the other program, or give another address with `voidbox up --listen HOST:PORT`. `voidbox up --no-listen` listens nowhere. The embedded stack is up and tries again.',
  );
}
