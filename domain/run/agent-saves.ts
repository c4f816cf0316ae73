/**
 * The saves of the agents of a run, folded from its events: a retry with `continue` starts from the newest save of
 * each.
 */
import { parseExecKey } from './attempt.ts';
import type { RunEvent, RunEventBody, SavedFolder } from './event.ts';
import { sumCounts } from '../agent/budget.ts';
import type { StageFailure } from './stage-result.ts';

/** A save of an agent: its session and its files at one moment. */
export interface SavedAgent {
  /** The attempt that it was saved in. */
  readonly execKey: string;
  readonly savedAtMs: number;
  readonly sessionId: string;
  readonly folders: readonly SavedFolder[];
}

/** A save that an agent of another run continues from. */
export interface ContinuedAgent extends SavedAgent {
  /** The run that it was saved in. */
  readonly runId: string;
  /** Calls of the model that its session has; null: not known. */
  readonly turns: number | null;
  /** Why the agent ended; null: it lost its VM, or its run was terminated. */
  readonly ended: Pick<StageFailure, 'code' | 'message'> | null;
}

/** The attempts of a stage, or of a stage of one item. */
export interface AttemptSeries {
  /** The state of the latest attempt. */
  readonly state: 'open' | 'succeeded' | 'passed' | 'failed' | 'cancelled';
  /** A command of one of the attempts was started. */
  readonly hasStarted: boolean;
  /** The newest save of an attempt that did not succeed; null: no such save exists. */
  readonly save: ContinuedAgent | null;
}

/** By `seriesOf` the exec key. */
export type AttemptsBySeries = ReadonlyMap<string, AttemptSeries>;

/**
 * The part of an exec key that all attempts of a stage share: `<stage>/<instance>`. Null for a text that is not an exec
 * key.
 */
export function seriesOf(execKey: string): string | null {
  return parseExecKey(execKey) === null ? null : execKey.split('/').slice(0, 2).join('/');
}

/** @param events  the events of the run, in order */
export async function readAttemptSeries(runId: string, events: AsyncIterable<RunEvent>): Promise<AttemptsBySeries> {
  const fold = new SeriesFold(runId);
  for await (const { body, atMs } of events) fold.push(body, atMs);
  return fold.series;
}

class SeriesFold {
  readonly series = new Map<string, AttemptSeries>();
  readonly #runId: string;
  /** The number of each series' latest attempt. */
  readonly #latest = new Map<string, number>();
  /** Calls of the model by attempt: its own, and the calls in its session before it. */
  readonly #own = new Map<string, number>();
  readonly #before = new Map<string, number>();

  constructor(runId: string) {
    this.#runId = runId;
  }

  push(body: RunEventBody, atMs: number): void {
    if (body.type === 'stage-started') this.#end(body.execKey, 'open', null);
    else if (body.type === 'agent-usage')
      this.#own.set(body.execKey, Math.max(this.#own.get(body.execKey) ?? 0, body.turns));
    else if (body.type === 'stage-resumed') {
      const here = body.runId === undefined ? this.#turnsOf(body.from) : 0;
      this.#before.set(body.execKey, sumCounts(here, body.turns ?? 0));
    } else if (body.type === 'stage-progress') this.#save(body, atMs);
    else if (body.type === 'stage-finished') {
      const { outcome, failure } = body.result;
      this.#end(body.execKey, outcome, failure);
    } else if (body.type === 'stage-failed') this.#end(body.execKey, 'failed', body.failure);
  }

  #turnsOf(execKey: string): number {
    return sumCounts(this.#own.get(execKey) ?? 0, this.#before.get(execKey) ?? 0);
  }

  #save(
    { execKey, sessionId, folders, turns = this.#turnsOf(execKey) }: Extract<RunEventBody, { type: 'stage-progress' }>,
    savedAtMs: number,
  ): void {
    const key = this.#keyOf(execKey);
    if (key === null) return;
    const save = { runId: this.#runId, execKey, savedAtMs, sessionId, folders, turns, ended: null };
    this.series.set(key, { state: this.series.get(key)?.state ?? 'open', hasStarted: true, save });
  }

  #end(execKey: string, state: AttemptSeries['state'], failure: StageFailure | null): void {
    const key = this.#keyOf(execKey);
    if (key === null) return;
    const known = this.series.get(key);
    const earlier = known?.save ?? null;
    const isDone = state === 'succeeded' || state === 'passed';
    const save =
      earlier === null || isDone
        ? null
        : earlier.execKey === execKey && failure !== null
          ? { ...earlier, ended: { code: failure.code, message: failure.message } }
          : earlier;
    this.series.set(key, { state, hasStarted: state === 'open' || known?.hasStarted === true, save });
  }

  /** Null for an attempt before the latest, and for a text that is not an exec key. */
  #keyOf(execKey: string): string | null {
    const key = seriesOf(execKey);
    const attempt = parseExecKey(execKey)?.attempt ?? 0;
    if (key === null || attempt < (this.#latest.get(key) ?? 0)) return null;
    this.#latest.set(key, attempt);
    return key;
  }
}
