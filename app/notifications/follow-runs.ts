/**
 * Follows the events of runs of deployments with receivers, and writes notifications into the outbox. Several services
 * may do this at once: the id of a notification follows from its fact, and the store takes each step of a run once.
 */
import type { NoticeOrigin } from '../../domain/notification/notice.ts';
import { type Notify, NOTIFY_LIMITS } from '../../domain/notification/notify.ts';
import {
  type CleanText,
  createRecoveredNotice,
  createUnstartedNotice,
  findEnd,
  observeEvent,
  observeTime,
  type WatchedEnd,
  type WatchStep,
} from '../../domain/notification/watch.ts';
import type { RunEvent } from '../../domain/run/event.ts';
import { redactText } from '../../domain/security/redactor.ts';
import { shorten } from '../../domain/units/quote.ts';
import type { WatchedRun } from '../../store/ports/notifications.ts';
import type { TriggerStore, VersionRow } from '../../store/triggers.ts';
import type { ReadSecretValues } from '../deliveries/read-deliveries.ts';
import { startLoop } from '../loop.ts';
import type { Machine } from '../machine.ts';
import { makeNotifications } from './make-notifications.ts';

const PAGE = 200;
const EVERY_MS = 5_000;
/** A reader of events has a buffer; other runs are read again at each look. */
const MOST_FOLLOWED = 128;
/** A run whose events cannot be read is tried again after this time. */
const FAILURE_PAUSE_MS = 60_000;
/** A delivery has recorded the end of its run for so long, and its events are gone. */
const GONE_MS = 10 * 60_000;

export interface FollowRunsOptions {
  readonly openTriggers: () => Promise<TriggerStore | null>;
  readonly machine: Machine;
  readonly readSecretValues: ReadSecretValues;
  /** Called when notifications were added. */
  readonly onAdded: () => void;
  readonly log: (line: string) => void;
  /** Other values are for tests. */
  readonly everyMs?: number;
  readonly mostFollowed?: number;
}

export interface RunFollower {
  /** Ends when the work in progress has ended. */
  close(): Promise<void>;
}

export function followRuns(options: FollowRunsOptions): RunFollower {
  const { openTriggers, log, everyMs = EVERY_MS } = options;
  const runs = new Map<string, RunInProgress>();
  const stop = new AbortController();
  const visitAll = async (): Promise<void> => {
    const triggers = await openTriggers();
    if (triggers === null) return;
    const watched = new Set<string>();
    for (let after = 0; !stop.signal.aborted;) {
      const page = await triggers.notifications.listWatched(PAGE, after);
      for (const run of page) {
        watched.add(run.runId);
        await visit(run, triggers);
      }
      if (page.length < PAGE) break;
      after = page.at(-1)!.seq;
    }
    for (const [runId, run] of runs) if (!watched.has(runId)) run.end();
  };
  const visit = async (run: WatchedRun, triggers: TriggerStore): Promise<void> => {
    const known = runs.get(run.runId);
    if (known !== undefined) return await known.tick();
    const { mostFollowed = MOST_FOLLOWED } = options;
    const made = new RunInProgress(run, triggers, options, stop.signal);
    if (runs.size >= mostFollowed) return await made.readOnce();
    runs.set(run.runId, made);
    made.follow(() => runs.delete(run.runId));
  };
  const loop = startLoop({
    leastMs: 0,
    async scan() {
      await visitAll().catch((error: Error) => log(`notifications: ${error.message}`));
      return everyMs;
    },
  });
  return {
    async close() {
      stop.abort();
      await loop.close();
      await Promise.all([...runs.values()].map((run) => run.settled));
    },
  };
}

interface Facts {
  readonly notify: Notify;
  readonly clean: CleanText;
}

/** One run. Its events and its times are observed one after the other. */
class RunInProgress {
  settled: Promise<void> = Promise.resolve();
  #run: WatchedRun;
  #facts: Facts | null = null;
  /** Events or times are observed; the next observation waits. */
  #turn: Promise<unknown> = Promise.resolve();
  /** Another process has advanced the run, or it has ended. */
  #isOver = false;
  #retryAtMs = 0;
  readonly #triggers: TriggerStore;
  readonly #options: FollowRunsOptions;
  readonly #stop = new AbortController();

  constructor(run: WatchedRun, triggers: TriggerStore, options: FollowRunsOptions, signal: AbortSignal) {
    this.#run = run;
    this.#triggers = triggers;
    this.#options = options;
    if (signal.aborted) this.end();
    signal.addEventListener('abort', () => this.end(), { signal: this.#stop.signal });
  }

  end(): void {
    this.#isOver = true;
    this.#stop.abort();
  }

  /** @param onEnd  called when it is no longer followed */
  follow(onEnd: () => void): void {
    this.settled = this.#follow()
      .catch((error: Error) => {
        this.#options.log(`notifications of run ${this.#run.runId}: ${error.message}`);
        this.#retryAtMs = this.#now() + FAILURE_PAUSE_MS;
      })
      .finally(() => {
        // A failed one stays, so that its next try waits.
        if (this.#retryAtMs === 0) onEnd();
        else this.#release = onEnd;
      });
  }

  #release: () => void = () => undefined;

  /** Observes the time, and ends the pause after a failure. */
  async tick(): Promise<void> {
    if (this.#retryAtMs > 0) {
      if (this.#now() >= this.#retryAtMs) this.#release();
      return;
    }
    try {
      await this.#take(async () => await this.#observeTime());
    } catch (error) {
      this.#options.log(`notifications of run ${this.#run.runId}: ${(error as Error).message}`);
    }
  }

  /** Reads the events so far. */
  async readOnce(): Promise<void> {
    const { reader } = await this.#options.machine.stores();
    if (await this.#reportUnstarted()) return;
    for await (const event of reader.read(this.#run.runId, this.#run.state.seq, { output: false })) {
      await this.#observe(event);
      if (this.#isOver) return;
    }
    await this.#observeTime();
  }

  async #follow(): Promise<void> {
    const { reader } = await this.#options.machine.stores();
    if (await this.#reportUnstarted()) return;
    const { signal } = this.#stop;
    for await (const event of reader.follow(this.#run.runId, this.#run.state.seq, signal, { output: false })) {
      await this.#take(async () => await this.#observe(event));
      if (this.#isOver) return;
    }
  }

  async #take(work: () => Promise<void>): Promise<void> {
    // The caller before has its failure.
    const turn = this.#turn.catch(() => undefined).then(work);
    this.#turn = turn;
    await turn;
  }

  async #observe(event: RunEvent): Promise<void> {
    if (this.#isOver) return;
    const { clean } = await this.#open();
    const step = observeEvent(this.#run.state, event, clean);
    const kind = findEnd(event);
    await this.#write(step, kind === null ? null : { kind, atMs: event.atMs });
  }

  async #observeTime(): Promise<void> {
    if (this.#isOver) return;
    const { notify } = await this.#open();
    const { state, startedAtMs } = this.#run;
    await this.#write(observeTime(state, notify, { startedAtMs, nowMs: this.#now() }), null);
    if (!this.#isOver && (await this.#isGone()))
      await this.#write({ state, notices: [] }, { kind: 'cancelled', atMs: 0 });
  }

  /** Whether the run ended long ago and has no events: it was pruned, or never admitted. */
  async #isGone(): Promise<boolean> {
    if (this.#run.state.seq > 0 || this.#now() - this.#run.startedAtMs < GONE_MS) return false;
    const { index } = await this.#options.machine.stores();
    if (await index.has(this.#run.runId)) return false;
    const delivery = await this.#triggers.deliveries.find(this.#run.delivery);
    return delivery === null || (delivery.runEndedAtMs !== null && this.#now() - delivery.runEndedAtMs > GONE_MS);
  }

  /** @returns whether the run could not start */
  async #reportUnstarted(): Promise<boolean> {
    const { failure, state } = this.#run;
    if (failure === null) return false;
    const { clean } = await this.#open();
    const atMs = this.#now();
    const notice = createUnstartedNotice(failure.code, failure.message, { atMs, clean });
    await this.#write({ state, notices: [notice] }, { kind: 'failed', atMs });
    return true;
  }

  async #write(
    { state, notices }: WatchStep,
    ended: { readonly kind: WatchedEnd; readonly atMs: number } | null,
  ): Promise<void> {
    const { notify } = await this.#open();
    const { runId, revision } = this.#run;
    if (notices.length === 0 && ended === null) {
      // An earlier state leads to the same notices again, with the same ids.
      this.#run = { ...this.#run, state };
      return;
    }
    const make = (...of: Parameters<typeof makeNotifications>[0]) =>
      makeNotifications(of, this.#describeOrigin(), notify, this.#now());
    const end = ended === null ? null : { ...ended, recovered: make(createRecoveredNotice(ended.atMs)) };
    const notifications = make(...notices);
    const isOurs = await this.#triggers.notifications.advance({ runId, revision, state, notifications, end });
    this.#run = { ...this.#run, state, revision: revision + 1 };
    if (!isOurs || end !== null) this.end();
    if (isOurs) this.#options.onAdded();
  }

  #describeOrigin(): NoticeOrigin {
    const { deployment, version, trigger, delivery, runId } = this.#run;
    return { deployment, version, trigger, delivery, runId };
  }

  async #open(): Promise<Facts> {
    if (this.#facts !== null) return this.#facts;
    const { deployment, version: number } = this.#run;
    const version = await this.#triggers.deployments.findVersion(deployment, number);
    if (version === null) throw new Error(`version ${number} of the deployment ${deployment} is gone`);
    this.#facts = { notify: version.notify, clean: await openClean(version, this.#options.readSecretValues) };
    return this.#facts;
  }

  #now(): number {
    return this.#options.machine.now().getTime();
  }
}

/** @throws what the reader of secrets throws: without the values nothing can be redacted, so nothing is written */
async function openClean(
  { deployment, secrets: names }: VersionRow,
  readSecretValues: ReadSecretValues,
): Promise<CleanText> {
  const values = names.length === 0 ? {} : await readSecretValues(deployment, names);
  const secrets = Object.entries(values).map(([name, value]) => ({ name, value }));
  return (text) => shorten(redactText(text, secrets), NOTIFY_LIMITS.textCharacters);
}
