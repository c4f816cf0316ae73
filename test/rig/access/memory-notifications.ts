/** Notifications in memory, for tests of what uses them. */
import { NEW_WATCH } from '../../../domain/notification/watch.ts';
import type { DeliveryRow } from '../../../store/triggers.ts';
import {
  MOST_OF_RECEIVER,
  type NewNotification,
  NOTIFICATION_KEPT_MS,
  type NotificationRow,
  type NotificationStore,
  type WatchedRun,
} from '../../../store/ports/notifications.ts';

interface Kept {
  row: NotificationRow;
  claim: string | null;
  leaseUntilMs: number;
}

export interface MemoryNotifications {
  readonly store: NotificationStore;
  /** A delivery has its result. */
  readonly watch: (row: DeliveryRow, nowMs: number) => Promise<void>;
}

/** @param hasReceivers  whether a version has receivers */
export function createMemoryNotifications(
  hasReceivers: (deployment: string, version: number) => Promise<boolean>,
): MemoryNotifications {
  const watched = new Map<string, WatchedRun>();
  const failing = new Set<string>();
  let kept: Kept[] = [];
  let lastSeq = 0;
  const add = (added: readonly NewNotification[]): void => {
    for (const each of structuredClone(added)) {
      if (kept.some(({ row }) => row.id === each.id)) continue;
      const open = { state: 'waiting', dueAtMs: each.createdAtMs, tries: 0, code: null, problem: null } as const;
      lastSeq += 1;
      kept.push({ row: { ...each, ...open, sentAtMs: null, seq: lastSeq }, claim: null, leaseUntilMs: 0 });
    }
  };
  const isWaiting = ({ row }: Kept): boolean => row.dueAtMs !== null;
  const store: NotificationStore = {
    listWatched: (limit, after = 0) =>
      Promise.resolve([...watched.values()].filter(({ seq }) => seq > after).slice(0, limit)),
    advance({ runId, revision, state, notifications, end }) {
      const run = watched.get(runId);
      if (run?.revision !== revision) return Promise.resolve(false);
      if (end === null) watched.set(runId, { ...run, state: structuredClone(state), revision: revision + 1 });
      else watched.delete(runId);
      add(notifications);
      if (end?.kind === 'failed') failing.add(run.deployment);
      if (end?.kind === 'succeeded' && failing.delete(run.deployment)) add(end.recovered);
      return Promise.resolve(true);
    },
    add: (notifications) => Promise.resolve(add(notifications)),
    find: (id) => Promise.resolve(kept.find(({ row }) => row.id === id)?.row ?? null),
    list({ limit, before = Number.POSITIVE_INFINITY, deployment, state, kind }) {
      const found = kept.flatMap(({ row }) =>
        row.seq < before &&
        (deployment === undefined || row.message.deployment === deployment) &&
        (state === undefined || row.state === state) &&
        (kind === undefined || row.message.kind === kind)
          ? [row]
          : [],
      );
      return Promise.resolve(found.toReversed().slice(0, limit));
    },
    claim({ token, nowMs, leaseMs, limit }) {
      const counts = new Map<string, number>();
      const free = kept
        .filter((each) => isWaiting(each) && each.row.dueAtMs! <= nowMs)
        .filter(({ leaseUntilMs, claim }) => claim === null || leaseUntilMs <= nowMs || leaseUntilMs > nowMs + leaseMs)
        .toSorted((one, other) => one.row.dueAtMs! - other.row.dueAtMs! || one.row.seq - other.row.seq)
        .filter(({ row }) => {
          const key = JSON.stringify([row.message.deployment, row.receiver]);
          counts.set(key, (counts.get(key) ?? 0) + 1);
          return counts.get(key)! <= MOST_OF_RECEIVER;
        })
        .slice(0, limit);
      for (const each of free) Object.assign(each, { claim: token, leaseUntilMs: nowMs + leaseMs });
      return Promise.resolve(free.map(({ row }) => row));
    },
    record({ id, token }, result, nowMs) {
      const mine = kept.find((each) => each.row.id === id && each.claim === token && isWaiting(each));
      if (mine === undefined) return Promise.resolve(false);
      const tries = mine.row.tries + 1;
      mine.claim = null;
      if (result.kind === 'sent')
        mine.row = { ...mine.row, state: 'sent', dueAtMs: null, sentAtMs: nowMs, code: null, problem: null, tries };
      else {
        const { code, problem, nextAtMs } = result;
        mine.row = {
          ...mine.row,
          state: nextAtMs === null ? 'dead' : 'waiting',
          dueAtMs: nextAtMs,
          code,
          problem,
          tries,
        };
      }
      return Promise.resolve(true);
    },
    replay(id, nowMs) {
      const found = kept.find((each) => each.row.id === id && !isWaiting(each));
      if (found === undefined) return Promise.resolve(false);
      found.row = { ...found.row, state: 'waiting', dueAtMs: nowMs, tries: 0, sentAtMs: null };
      return Promise.resolve(true);
    },
    hasOpen: () => Promise.resolve(watched.size > 0 || kept.some(isWaiting)),
    findNextDue(nowMs) {
      const times = kept
        .filter(isWaiting)
        .map(({ row, claim, leaseUntilMs }) => (claim !== null && leaseUntilMs > nowMs ? leaseUntilMs : row.dueAtMs!));
      return Promise.resolve(times.length === 0 ? null : Math.min(...times));
    },
    sweep(nowMs) {
      kept = kept.filter((each) => isWaiting(each) || each.row.createdAtMs > nowMs - NOTIFICATION_KEPT_MS);
      return Promise.resolve();
    },
  };
  return {
    store,
    async watch(row, nowMs) {
      const { runId, deployment, version, trigger, id: delivery, state, code, message } = row;
      if (runId === null || (state !== 'started' && state !== 'failed') || watched.has(runId)) return;
      if (!(await hasReceivers(deployment, version))) return;
      const failure = state === 'failed' ? { code: code ?? 'api/bug', message: message ?? '' } : null;
      lastSeq += 1;
      const facts = { runId, deployment, version, trigger, delivery, startedAtMs: nowMs, failure };
      watched.set(runId, { ...facts, seq: lastSeq, state: NEW_WATCH, revision: 0 });
    },
  };
}
