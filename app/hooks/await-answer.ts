/** The answer of a webhook whose sender waits for the run of its event. */
import { limitSignal } from '../../files/limited-signal.ts';
import type { Respond } from '../../domain/delivery/trigger.ts';
import { isOpenDelivery, type DeliveryState } from '../../domain/delivery/delivery.ts';
import type { DeliveryRow, DeliveryStore } from '../../store/triggers.ts';
import type { Machine } from '../machine.ts';
import { findArtifact } from '../runs/artifacts.ts';
import { waitForEnd } from '../runs/await-end.ts';
import { readRepairedViews } from '../runs/repair-runs.ts';
import { readUpTo } from '../runs/result-text.ts';

/** The most bytes of an output that is an answer. */
export const MOST_ANSWER_BYTES = 1024 * 1024;
/** A delivery whose run another delivery starts is followed for this many links. */
const MOST_LINKS = 10;
const [FIRST_PAUSE_MS, LONGEST_PAUSE_MS] = [25, 500];

/**
 * `open`: the run has not ended in time, or the delivery starts no run.
 * `failed`: the run has not succeeded, or its output is too large.
 */
export type HookAnswer =
  | { readonly kind: 'open'; readonly state: DeliveryState }
  | { readonly kind: 'output'; readonly bytes: Uint8Array; readonly contentType: string }
  | { readonly kind: 'failed'; readonly runId: string; readonly reason: string };

export interface AnswerOptions {
  readonly deliveries: Pick<DeliveryStore, 'find'>;
  /** Aborted when the sender has gone. The run continues. */
  readonly signal: AbortSignal;
}

/** @throws CodedError `api/access-unavailable`, `store/damaged`, `store/io` */
export async function awaitHookAnswer(
  delivery: string,
  { waitMs, output }: Pick<Respond, 'waitMs' | 'output'>,
  { deliveries, signal }: AnswerOptions,
  machine: Machine,
): Promise<HookAnswer> {
  const over = limitSignal(signal, waitMs);
  const row = await awaitDecision(delivery, deliveries, over);
  if (row?.state !== 'started' || row.runId === null) return { kind: 'open', state: row?.state ?? 'accepted' };
  const { runId } = row;
  await waitForEnd(runId, { waitMs, signal: over }, machine);
  const [view] = await readRepairedViews([runId], machine);
  if (view === undefined || view.outcome === null) return { kind: 'open', state: row.state };
  if (view.state !== 'succeeded') return { kind: 'failed', runId, reason: `the run has ${view.state}` };
  return await readOutput(runId, output, machine);
}

/** Waits until a delivery, or the one that has its run, is no longer open. */
async function awaitDecision(
  delivery: string,
  deliveries: Pick<DeliveryStore, 'find'>,
  over: AbortSignal,
): Promise<DeliveryRow | null> {
  let id = delivery;
  let links = 0;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2)) {
    const row = await deliveries.find(id);
    if (row === null) return null;
    if (row.into !== null && links < MOST_LINKS) {
      id = row.into;
      links += 1;
      continue;
    }
    if (!isOpenDelivery(row.state) || over.aborted) return row;
    await pause(pauseMs, over);
  }
}

async function pause(timeMs: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(end, timeMs);
    function end(): void {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    }
    signal.addEventListener('abort', end);
  });
}

/** @param stage  null: the output of the run */
async function readOutput(runId: string, stage: string | null, machine: Machine): Promise<HookAnswer> {
  const tooLarge = { kind: 'failed', runId, reason: 'the output has more than 1 MiB' } as const;
  if (stage !== null) {
    const { sizeBytes, open } = await findArtifact(runId, { stage, name: null }, machine);
    return sizeBytes > MOST_ANSWER_BYTES ? tooLarge : describeOutput(await readUpTo(open(0), MOST_ANSWER_BYTES));
  }
  const [view] = await readRepairedViews([runId], machine);
  const ref = view?.outcome?.output ?? null;
  if (ref === null) return describeOutput(new Uint8Array());
  if (ref.sizeBytes > MOST_ANSWER_BYTES) return tooLarge;
  const { artifacts } = await machine.stores();
  return describeOutput(await readUpTo(artifacts.open(ref), MOST_ANSWER_BYTES));
}

/** A guest chooses the bytes, so only JSON and text have a type that a program shows. */
function describeOutput(bytes: Uint8Array): HookAnswer {
  const text = decode(bytes);
  const contentType =
    text === null ? 'application/octet-stream' : isJson(text) ? 'application/json' : 'text/plain; charset=utf-8';
  return { kind: 'output', bytes, contentType };
}

function decode(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
