/** Reads a run, after its end or after a limit of time. */
import { limitSignal } from '../../files/limited-signal.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { RunView } from '../../store/run-view.ts';
import { type RunJson, toRunJson } from '../json/run-json.ts';
import type { Machine } from '../machine.ts';
import { readRepairedViews } from './repair-runs.ts';
import { resultText } from './result-text.ts';

export interface RunResult {
  readonly hasEnded: boolean;
  /** As `voidbox result --json` prints it. */
  readonly run: RunJson & { readonly outputText: string | null };
}

export interface WaitOptions {
  /** The longest wait; 0: none. */
  readonly waitMs: number;
  /** Ends the wait when the caller has gone. */
  readonly signal: AbortSignal;
}

/**
 * Waits for the end of a run, and returns the run with the text of its output. After `waitMs` it returns the run as it
 * is.
 */
export async function awaitResult(
  runId: string,
  { waitMs, signal }: WaitOptions,
  context: Machine,
): Promise<RunResult> {
  const stores = await context.stores();
  const isOpen = (await stores.events.find(runId, EVENT_ID.runFinished)) === null;
  if (isOpen) await waitForEnd(runId, { waitMs, signal }, context);
  const [view] = (await readRepairedViews([runId], context)) as readonly [RunView];
  const output = view.outcome?.output ?? null;
  const outputText = output === null ? null : await resultText(output, stores.artifacts);
  return { hasEnded: view.outcome !== null, run: { ...toRunJson(view), outputText } };
}

/**
 * Waits until the run has ended, the time is over or the caller has gone.
 * @throws CodedError `store/damaged`, `store/io`
 */
export async function waitForEnd(runId: string, { waitMs, signal }: WaitOptions, context: Machine): Promise<void> {
  if (waitMs <= 0) return;
  const { reader } = await context.stores();
  const over = limitSignal(signal, waitMs);
  for await (const event of reader.follow(runId, 0, over, { output: false }))
    if (event.body.type === 'run-finished') return;
}
