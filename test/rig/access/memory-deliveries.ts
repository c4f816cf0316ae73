/** Deliveries in memory, for tests of what uses them. */
import { createHash } from 'node:crypto';
import type { Decision, StoreFacts } from '../../../domain/delivery/decision.ts';
import {
  DELIVERY_KEPT_MS,
  type DeliveryKeys,
  MOST_OPEN_RUNS,
  PAYLOAD_KEPT_MS,
} from '../../../domain/delivery/delivery.ts';
import {
  applyDecision,
  applyResult,
  createRow,
  findGroupKey,
  isOutOfOrder,
  listNeeds,
  NO_FACTS,
  refuseRow,
  toLeader,
} from '../../../domain/delivery/row-changes.ts';
import { findCircle, type Link } from '../../../domain/delivery/links.ts';
import { type Follower, followRunEnd } from '../../../domain/delivery/run-end.ts';
import { MOST_QUEUED } from '../../../domain/delivery/scheduled.ts';
import type { Claim, DeliveryRow, DeliveryStore, NewDelivery, ScheduleId } from '../../../store/triggers.ts';

interface Kept {
  row: DeliveryRow;
  body: Uint8Array | null;
  claim: string | null;
  leaseUntilMs: number;
}

/** The facts of deployments that deliveries need. */
export interface DeploymentGraph {
  readPause(deployment: string): Promise<Pick<StoreFacts, 'pause' | 'isDeleted'>>;
  listFollowers(deployment: string): Promise<readonly Follower[]>;
  listLinks(): Promise<readonly Link[]>;
}

/** @param onResult  called with a delivery that has the result of a try */
export function createMemoryDeliveries(
  graph: DeploymentGraph,
  isSchedulePaused: (id: ScheduleId) => boolean = () => false,
  onResult: (row: DeliveryRow, nowMs: number) => Promise<void> = () => Promise.resolve(),
): DeliveryStore {
  const memory = new Memory(isSchedulePaused);
  return {
    accept(delivery) {
      const known = memory.find(delivery.id);
      if (known !== null) return Promise.resolve({ delivery: known.row, isNew: false });
      const { body, isOrdered: _isOrdered, ...facts } = structuredClone(delivery);
      return Promise.resolve({ delivery: memory.add(facts, body), isNew: true });
    },
    acceptAll(deliveries) {
      for (const { body, isOrdered: _isOrdered, ...facts } of structuredClone(deliveries)) memory.add(facts, body);
      return Promise.resolve();
    },
    find: (id) => Promise.resolve(memory.find(id)?.row ?? null),
    readBody: (id) => Promise.resolve(memory.find(id)?.body ?? null),
    readBodies: (ids) =>
      Promise.resolve(
        new Map(memory.kept.filter(({ row }) => ids.includes(row.id)).map(({ row, body }) => [row.id, body])),
      ),
    list({ limit, before = Number.POSITIVE_INFINITY, deployment, trigger, state, sinceMs = 0 }) {
      const found = memory.rows(
        (row) =>
          row.seq < before &&
          row.acceptedAtMs >= sinceMs &&
          (deployment === undefined || row.deployment === deployment) &&
          (trigger === undefined || row.trigger === trigger) &&
          (state === undefined || row.state === state),
      );
      return Promise.resolve(found.toReversed().slice(0, limit));
    },
    listLatest: (triggers) =>
      Promise.resolve(
        triggers.flatMap(
          ({ deployment, trigger }) =>
            memory.rows((row) => row.deployment === deployment && row.trigger === trigger).at(-1) ?? [],
        ),
      ),
    claim({ token, nowMs, leaseMs, limit }) {
      const free = memory.kept.filter((each) => isDue(each, nowMs) && isFree(each, nowMs, leaseMs)).slice(0, limit);
      for (const each of free) Object.assign(each, { claim: token, leaseUntilMs: nowMs + leaseMs });
      return Promise.resolve(free.map(({ row }) => row));
    },
    async decide({ nowMs, leaseMs, keys, decide, ...claim }) {
      const deployment = memory.find(claim.id)?.row.deployment ?? '';
      const pause = await graph.readPause(deployment);
      const links = await graph.listLinks();
      const mine = memory.findClaimed(claim);
      if (mine === null) return null;
      const circle = listNeeds(mine.row, keys).circle ? findCircle(links, deployment) : null;
      const decision = decide(mine.row, { ...memory.readFacts(mine.row, keys), ...pause, circle }, nowMs);
      memory.apply(mine, decision, keys, nowMs);
      Object.assign(mine, mine.row.state === 'starting' ? { leaseUntilMs: nowMs + leaseMs } : { claim: null });
      return mine.row;
    },
    async record(claim, result, nowMs) {
      const mine = memory.findClaimed(claim);
      if (mine === null) return null;
      mine.row = applyResult(mine.row, result, nowMs);
      mine.claim = null;
      memory.wakeOthers(mine.row, nowMs);
      await onResult(mine.row, nowMs);
      return mine.row;
    },
    renew(claim, { nowMs, leaseMs }) {
      const mine = memory.findClaimed(claim);
      if (mine !== null) mine.leaseUntilMs = nowMs + leaseMs;
      return Promise.resolve();
    },
    release(claim) {
      const mine = memory.findClaimed(claim);
      if (mine !== null) mine.claim = null;
      return Promise.resolve();
    },
    listMembers: (id) => Promise.resolve(memory.listMembers(id)),
    listOpenRuns: (limit, after = 0) =>
      Promise.resolve(memory.rows((row) => isRunOpen(row) && row.seq > after).slice(0, limit)),
    findOldestRun: ({ deployment, trigger }) =>
      Promise.resolve(
        memory.rows((row) => isRunOpen(row) && row.deployment === deployment && row.trigger === trigger)[0]?.runId ??
          null,
      ),
    async recordRunEnd({ id, event, nowMs, createId }) {
      const followers = await graph.listFollowers(memory.find(id)?.row.deployment ?? '');
      const each = memory.find(id);
      if (each === null || !isRunOpen(each.row)) return 0;
      each.row = { ...each.row, runEndedAtMs: nowMs };
      memory.wakeOthers(each.row, nowMs);
      if (event === null) return 0;
      const links = memory.listMembers(id).map(({ delivery: { upstream } }) => upstream?.links ?? 0);
      const made = followRunEnd(each.row, Math.max(...links), event.state, followers);
      for (const { isOrdered: _isOrdered, ...facts } of made)
        memory.add({ ...facts, id: createId(), acceptedAtMs: nowMs }, event.body);
      return made.length;
    },
    listFollowers: async (deployment) => await graph.listFollowers(deployment),
    sweep: (nowMs) => Promise.resolve(memory.sweep(nowMs)),
    releasePaused(deployment, nowMs) {
      for (const each of memory.kept)
        if (each.row.deployment === deployment && each.row.hold === 'paused')
          each.row = { ...each.row, dueAtMs: Math.min(each.row.dueAtMs ?? nowMs, nowMs) };
      return Promise.resolve();
    },
    hasOpen: () => Promise.resolve(memory.rows((row) => row.dueAtMs !== null && row.hold !== 'paused').length > 0),
    countOpen: (deployment, trigger, most) =>
      Promise.resolve(
        Math.min(
          most,
          memory.rows((row) => row.dueAtMs !== null && row.deployment === deployment && row.trigger === trigger).length,
        ),
      ),
    findNextDue(nowMs) {
      const times = memory.kept.flatMap(({ row, claim, leaseUntilMs }) =>
        row.dueAtMs === null ? [] : [claim === null || leaseUntilMs <= nowMs ? row.dueAtMs : leaseUntilMs],
      );
      return Promise.resolve(times.length === 0 ? null : Math.min(...times));
    },
    wake: () => {
      for (const listener of memory.listeners) listener();
    },
    listen(onWake) {
      memory.listeners.add(onWake);
      return Promise.resolve(() => {
        memory.listeners.delete(onWake);
        return Promise.resolve();
      });
    },
  };
}

class Memory {
  readonly #isSchedulePaused: (id: ScheduleId) => boolean;
  kept: Kept[] = [];
  readonly listeners = new Set<() => void>();
  readonly #buckets = new Map<string, number>();
  #seq = 0;

  constructor(isSchedulePaused: (id: ScheduleId) => boolean) {
    this.#isSchedulePaused = isSchedulePaused;
  }

  add({ refusal, ...facts }: Omit<NewDelivery, 'body' | 'isOrdered'>, given: Uint8Array): DeliveryRow {
    const body = Uint8Array.from(given);
    const bodySha256 = createHash('sha256').update(body).digest('hex');
    const accepted = createRow({ ...facts, bodySha256, bodyBytes: body.byteLength }, (this.#seq += 1));
    const row = refusal === undefined ? accepted : refuseRow(accepted, refusal);
    this.kept.push({ row, body, claim: null, leaseUntilMs: 0 });
    return row;
  }

  find(id: string): Kept | null {
    return this.kept.find(({ row }) => row.id === id) ?? null;
  }

  findClaimed({ id, token }: Claim): Kept | null {
    const found = this.find(id);
    return found !== null && found.claim === token && found.row.dueAtMs !== null ? found : null;
  }

  rows(filter: (row: DeliveryRow) => boolean): readonly DeliveryRow[] {
    return this.kept.map(({ row }) => row).filter(filter);
  }

  readFacts(mine: DeliveryRow, keys: DeliveryKeys): Omit<StoreFacts, 'pause' | 'isDeleted'> {
    const needs = listNeeds(mine, keys);
    const ofTrigger = this.rows(
      ({ id, deployment, trigger }) => id !== mine.id && deployment === mine.deployment && trigger === mine.trigger,
    );
    const open = ofTrigger.filter(({ dueAtMs }) => dueAtMs !== null);
    const owners = ofTrigger.filter((row) => row.ownsKey && row.keys?.dedupe === keys.dedupe);
    const byTime = (one: DeliveryRow, other: DeliveryRow): number => one.acceptedAtMs - other.acceptedAtMs;
    const ungrouped = open.filter(({ passed, group }) => (passed === 'none' || passed === 'dedupe') && group === null);
    const leaders = open.filter(
      (row) => row.passed === 'dedupe' && row.group !== null && findGroupKey(row.keys!) === findGroupKey(keys),
    );
    const { deployment } = mine;
    return {
      ...NO_FACTS,
      ...(needs.owners && {
        ownerBefore:
          owners
            .filter(({ seq }) => seq < mine.seq)
            .toSorted(byTime)
            .at(-1) ?? null,
        ownerAfter: owners.filter(({ seq }) => seq > mine.seq).toSorted(byTime)[0] ?? null,
      }),
      ...(needs.group && {
        leader: leaders.length === 0 ? null : toLeader(leaders.at(-1)!, mine),
        firstUndecidedAtMs: ungrouped.toSorted(byTime)[0]?.acceptedAtMs ?? null,
      }),
      ...(needs.bucket && { bucketFullAtMs: this.#buckets.get(nameBucket(mine, keys)) ?? null }),
      ...(needs.order && {
        isBehind: open.some((row) => row.seq < mine.seq && (row.keys === null || row.keys.order === keys.order)),
      }),
      ...(needs.room && {
        openRuns: this.rows((row) => row.id !== mine.id && row.deployment === deployment && usesRoom(row)).length,
        isBehindRoom:
          this.rows((row) => row.deployment === deployment && row.seq < mine.seq && row.hold === 'open-runs').length >
          0,
      }),
      ...(needs.schedule && {
        schedule: {
          isPaused: this.#isSchedulePaused(mine),
          hasOpenRun: ofTrigger.some(usesRoom),
          waiting: Math.min(ofTrigger.filter(({ hold }) => hold === 'overlap').length, MOST_QUEUED),
          isBehind: ofTrigger.some((row) => row.hold === 'overlap' && compareTimes(row, mine) < 0),
        },
      }),
    };
  }

  apply(mine: Kept, decision: Decision, keys: DeliveryKeys, nowMs: number): void {
    const { leader, bucketFullAtMs, closesGroup } = decision;
    mine.row = applyDecision(mine.row, decision, keys, nowMs);
    const other = leader === null ? null : this.find(leader.id);
    if (other !== null && leader?.kind === 'wait')
      other.row = { ...other.row, group: leader.group, dueAtMs: leader.dueAtMs };
    if (other !== null && leader?.kind === 'merge') {
      const merged = { state: 'merged', into: mine.row.id, hold: null, dueAtMs: null, decidedAtMs: nowMs } as const;
      other.row = { ...other.row, ...merged };
      other.claim = null;
      this.wakeOthers(other.row, nowMs);
    }
    if (closesGroup)
      for (const each of this.kept)
        if (each.row.state === 'merged' && each.row.group?.id === mine.row.group!.id)
          each.row = { ...each.row, into: mine.row.id };
    if (bucketFullAtMs !== null) this.#buckets.set(nameBucket(mine.row, keys), bucketFullAtMs);
    this.wakeOthers(mine.row, nowMs);
  }

  /** Makes deliveries due that waited for the end of this one. */
  wakeOthers(ended: DeliveryRow, nowMs: number): void {
    const inOrder = isOutOfOrder(ended)
      ? this.kept.find(
          ({ row }) =>
            row.hold === 'order' &&
            row.deployment === ended.deployment &&
            row.trigger === ended.trigger &&
            row.keys?.order === ended.keys?.order,
        )
      : undefined;
    const open = this.rows((row) => row.deployment === ended.deployment && usesRoom(row)).length;
    const waiting =
      open >= MOST_OPEN_RUNS
        ? undefined
        : this.kept.find(({ row }) => row.hold === 'open-runs' && row.deployment === ended.deployment);
    const ofSchedule = ended.schedule === null ? [] : this.kept.filter(({ row }) => isOfTrigger(row, ended));
    const next = ofSchedule.some(({ row }) => usesRoom(row))
      ? undefined
      : ofSchedule
          .filter(({ row }) => row.hold === 'overlap')
          .toSorted((one, other) => compareTimes(one.row, other.row))[0];
    for (const each of [inOrder, waiting, next])
      if (each !== undefined) each.row = { ...each.row, dueAtMs: Math.min(each.row.dueAtMs ?? nowMs, nowMs) };
  }

  listMembers(id: string): { readonly delivery: DeliveryRow; readonly body: Uint8Array | null }[] {
    return this.kept
      .filter(({ row }) => row.id === id || (row.state === 'merged' && row.into === id))
      .map(({ row, body }) => ({ delivery: row, body }));
  }

  sweep(nowMs: number): number {
    let deleted = 0;
    for (const each of this.kept)
      if (each.row.dueAtMs === null && each.body !== null && each.row.acceptedAtMs <= nowMs - PAYLOAD_KEPT_MS) {
        each.body = null;
        deleted += 1;
      }
    this.kept = this.kept.filter(
      ({ row }) => row.dueAtMs !== null || isRunOpen(row) || row.acceptedAtMs > nowMs - DELIVERY_KEPT_MS,
    );
    return deleted;
  }
}

function isDue({ row }: Kept, nowMs: number): boolean {
  return row.state === 'accepted' || (row.dueAtMs !== null && row.dueAtMs <= nowMs);
}

/** A lease that is longer than any other was made before the clock was set back. */
function isFree({ claim, leaseUntilMs }: Kept, nowMs: number, leaseMs: number): boolean {
  return claim === null || leaseUntilMs <= nowMs || leaseUntilMs > nowMs + leaseMs;
}

function isOfTrigger(row: DeliveryRow, other: DeliveryRow): boolean {
  return row.deployment === other.deployment && row.trigger === other.trigger;
}

function compareTimes(one: DeliveryRow, other: DeliveryRow): number {
  return one.schedule!.atMs - other.schedule!.atMs || one.seq - other.seq;
}

function isRunOpen({ state, runEndedAtMs }: DeliveryRow): boolean {
  return state === 'started' && runEndedAtMs === null;
}

/** A delivery whose start failed counts too, because its run may have started. */
function usesRoom(row: DeliveryRow): boolean {
  return isRunOpen(row) || (row.dueAtMs !== null && row.passed === 'start');
}

function nameBucket({ deployment, trigger }: DeliveryRow, keys: DeliveryKeys): string {
  return JSON.stringify([deployment, trigger, keys.rate]);
}
