import { setTimeout as sleep } from 'node:timers/promises';
import { isCodedError } from '../../domain/errors/coded-error.ts';
import type { RunEvent } from '../../domain/run/event.ts';
import type { DiskRoom } from '../../activities/ports/local-store.ts';
import { readDiskRoom } from '../../store/disk-room.ts';
import type { Stores } from '../../store/stores.ts';
import { emptyView, type RunView } from '../../store/run-view.ts';
import { project } from '../../store/projection.ts';
import { awaitOutcome, repairRun } from '../../client/runs/runs.ts';
import { readHostOfRun } from '../../client/runs/run-host.ts';
import { describeMissingWorker } from './missing-worker.ts';
import { type AppError, createEnvironmentError } from '../app-error.ts';
import { StackStoppedError } from '../../client/embedded/stop-mark.ts';
import { formatRunId, renderCommand } from './run-id.ts';
import { readView } from './run-lookup.ts';
import type { ServerLink } from '../../client/temporal/server-link.ts';

/** How often the command checks the embedded stack; it starts a dead stack again. */
const TEND_EVERY_MS = 1_000;
/** How often the command asks Temporal whether the run ended without writing its terminal event. */
const REPAIR_EVERY_MS = 3_000;

export interface FollowOptions {
  readonly runId: string;
  readonly stores: Pick<Stores, 'events' | 'reader'>;
  readonly link: ServerLink;
  /** The run is known to live on this host. Absent: only events in the local store show that. */
  readonly isHere?: boolean;
  /** Aborting it ends the following, not the run. */
  readonly signal: AbortSignal;
  readonly onEvent: (event: RunEvent, view: RunView) => Promise<void>;
  /** Reports a problem that does not end the following; each problem once. */
  readonly onTrouble: (message: string) => void;
  /** The state folder, whose disk is checked while the run is followed. */
  readonly stateDir: string;
  /** Called once each time that the disk becomes full. */
  readonly onLowDisk: (disk: DiskRoom) => void;
}

/** How long events of a run may take to reach this host's store before a notice says that they are elsewhere. */
const ELSEWHERE_AFTER_MS = 3_000;
const ELSEWHERE_AGAIN_MS = 5_000;

/**
 * Follows a run on any host. Events of a run that another host's worker admitted are in that host's store. Temporal
 * reports only the end of such a run, in a view whose `seq` is 0.
 */
export async function followWherever(
  options: FollowOptions & { readonly onNotice: (message: string) => void },
): Promise<RunView> {
  const { link, runId } = options;
  if (link.isEmbedded) return await followRun(options);
  let eventsHere = 0;
  const giveUp = new AbortController();
  const signal = AbortSignal.any([options.signal, giveUp.signal]);
  const local = followRun({
    ...options,
    signal,
    onEvent: async (event, view) => {
      eventsHere += 1;
      await options.onEvent(event, view);
    },
  });
  const announced = new AbortController();
  void reportWaitReason(options, () => eventsHere > 0, AbortSignal.any([signal, announced.signal]));
  try {
    const closed = awaitOutcome(link.client(), runId);
    const first = await Promise.race([local, closed]);
    // The terminal event is written before the workflow closes: events that the store lacks now are on another host.
    if ('stages' in first || (await readView(options.stores.reader, runId)).seq > 0) return await local;
    giveUp.abort();
    await local;
    return {
      ...emptyView(runId),
      hostId: (await link.briefly((client) => readHostOfRun(client, runId))) ?? '',
      state: first.state,
      outcome: first,
    };
  } finally {
    announced.abort();
  }
}

/** Reports why the run waits until its events arrive here or its host is known; each reason once. */
async function reportWaitReason(
  { link, runId, onNotice }: FollowOptions & { readonly onNotice: (message: string) => void },
  isHere: () => boolean,
  signal: AbortSignal,
): Promise<void> {
  let said = '';
  for (let waitMs = ELSEWHERE_AFTER_MS; ; waitMs = ELSEWHERE_AGAIN_MS) {
    await sleep(waitMs, undefined, { signal }).catch(() => undefined);
    if (signal.aborted || isHere()) return;
    const host = await link.briefly((client) => readHostOfRun(client, runId)).catch(() => null);
    const missing = host === null ? await describeMissingWorker(link, Date.now()) : null;
    if (signal.aborted || isHere()) return;
    if (host !== null) return onNotice(`the run lives on host ${host}, its output is there: waiting for its end`);
    const state = missing === null ? 'waiting' : 'no worker';
    if (state !== said)
      onNotice(missing ?? 'no worker has taken the run yet, or its host is unknown: waiting for its end');
    said = state;
  }
}

/**
 * Hands over every event of a run until the terminal one. During that time it keeps the embedded stack alive and
 * repairs a run that was terminated from outside.
 */
export async function followRun(options: FollowOptions): Promise<RunView> {
  const done = new AbortController();
  const signal = AbortSignal.any([options.signal, done.signal]);
  let view = emptyView(options.runId);
  // A run on the user's own server without an event here may live on another host. Then this host must not repair its
  // store.
  const end = new AbortController();
  const care = maintainRun(
    options,
    signal,
    () => options.isHere === true || options.link.isEmbedded || view.seq > 0,
    end,
  );
  try {
    for await (const event of options.stores.reader.follow(
      options.runId,
      0,
      AbortSignal.any([options.signal, end.signal]),
    )) {
      view = project(view, event);
      await options.onEvent(event, view);
    }
    if (end.signal.aborted && view.outcome === null) throw end.signal.reason;
    return view;
  } finally {
    done.abort();
    await care;
  }
}

/** Aborts `end` if the last event of the run cannot arrive: its files are damaged, or the stack was stopped. */
async function maintainRun(
  { runId, stores, link, onTrouble, onLowDisk, stateDir }: FollowOptions,
  signal: AbortSignal,
  isOurs: () => boolean,
  end: AbortController,
): Promise<void> {
  const told = new Set<string>();
  let repairedAtMs = Date.now();
  let wasLow = false;
  while (!signal.aborted) {
    await sleep(TEND_EVERY_MS, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return;
    const disk = readDiskRoom(stateDir);
    if (disk.isLow && !wasLow) onLowDisk(disk);
    wasLow = disk.isLow;
    try {
      await link.tend('stay');
      if (Date.now() - repairedAtMs < REPAIR_EVERY_MS) continue;
      repairedAtMs = Date.now();
      if (isOurs()) await link.briefly((client) => repairRun(client, stores.events, runId));
    } catch (error) {
      if (isCodedError(error) && error.code === 'store/damaged') return end.abort(error);
      if (error instanceof StackStoppedError) return end.abort(stackStopped(runId));
      const message = error instanceof Error ? error.message : String(error);
      if (!told.has(message) && !signal.aborted) onTrouble(message);
      told.add(message);
    }
  }
}

function stackStopped(runId: string): AppError {
  return createEnvironmentError(
    'cli/stack-stopped',
    `the embedded stack was stopped by voidbox down, and run ${formatRunId(runId)} has not ended`,
    `Continue it with voidbox up, then ${renderCommand('logs', runId, { options: '-f' })}`,
  );
}
