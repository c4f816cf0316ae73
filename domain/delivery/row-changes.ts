/** The changes that decisions and results make to a row. Every store of deliveries applies these. */
import type { Decision, Leader, StoreFacts } from './decision.ts';
import type { DeliveryFacts, DeliveryKeys, DeliveryState } from './delivery.ts';
import type { DeliveryResult, DeliveryRow } from './delivery-row.ts';
import { findRetryPause } from './retry.ts';

export function createRow(
  facts: Pick<DeliveryRow, keyof DeliveryFacts | 'version' | 'bodySha256' | 'bodyBytes'>,
  seq: number,
): DeliveryRow {
  return {
    ...facts,
    seq,
    state: 'accepted',
    hold: null,
    dueAtMs: facts.acceptedAtMs,
    keys: null,
    passed: 'none',
    group: null,
    ownsKey: false,
    runId: null,
    runEndedAtMs: null,
    into: null,
    code: null,
    message: null,
    tries: 0,
    decidedAtMs: null,
  };
}

/** Returns an accepted row that its source has refused. */
export function refuseRow(row: DeliveryRow, refusal: { readonly code: string; readonly message: string }): DeliveryRow {
  const { acceptedAtMs } = row;
  return { ...applyResult(row, { kind: 'refused', ...refusal }, acceptedAtMs), decidedAtMs: acceptedAtMs };
}

/** Returns the row after a decision. */
export function applyDecision(
  row: DeliveryRow,
  { next, passed, ownsKey, group }: Decision,
  keys: DeliveryKeys,
  nowMs: number,
): DeliveryRow {
  const decided: DeliveryRow = { ...row, keys, passed, ownsKey, group, hold: null, decidedAtMs: nowMs };
  const end = (state: DeliveryState): DeliveryRow => ({ ...decided, state, dueAtMs: null });
  switch (next.kind) {
    case 'start':
      return { ...decided, state: 'starting', runId: next.runId, dueAtMs: nowMs };
    case 'hold':
      return { ...decided, state: 'held', hold: next.hold, dueAtMs: next.dueAtMs };
    case 'deduplicate':
      return { ...end('deduplicated'), into: next.into };
    case 'merge':
      return { ...end('merged'), into: next.into };
    case 'filter':
      return { ...end('filtered'), code: next.code, message: next.message };
    case 'refuse':
      return { ...end('refused'), code: next.code, message: next.message };
  }
}

/** Returns the row after a try. */
export function applyResult(row: DeliveryRow, result: DeliveryResult, nowMs: number): DeliveryRow {
  if (result.kind === 'started')
    return { ...row, state: 'started', hold: null, dueAtMs: null, code: null, message: null };
  const { code, message } = result;
  const ended: DeliveryRow = { ...row, hold: null, dueAtMs: null, code, message };
  // No run has started and none will, so that a delivery with its key may start one.
  if (result.kind === 'refused') return { ...ended, state: 'refused', ownsKey: false };
  const tries = row.tries + 1;
  const pauseMs = findRetryPause(tries);
  if (pauseMs === null) return { ...ended, state: 'failed', tries };
  return { ...ended, state: 'held', hold: 'retry', dueAtMs: nowMs + pauseMs, tries };
}

/** Whether other deliveries of the order key can be next. */
export function isOutOfOrder(row: DeliveryRow): boolean {
  return row.dueAtMs === null && row.keys?.order !== null && row.keys?.order !== undefined;
}

export const NO_FACTS: StoreFacts = {
  pause: null,
  isDeleted: false,
  circle: null,
  ownerBefore: null,
  ownerAfter: null,
  leader: null,
  firstUndecidedAtMs: null,
  bucketFullAtMs: null,
  isBehind: false,
  openRuns: 0,
  isBehindRoom: false,
  schedule: null,
};

export function toLeader({ id, group, seq }: DeliveryRow, decided: Pick<DeliveryRow, 'seq'>): Leader | null {
  return group === null ? null : { id, group, isLater: seq > decided.seq };
}

/** A store reads the facts of these gates only. */
export function listNeeds(
  row: Pick<DeliveryRow, 'passed' | 'replayOf' | 'schedule' | 'upstream'>,
  keys: DeliveryKeys,
): FactNeeds {
  const isGrouped = keys.debounce !== null || keys.batch !== null;
  return {
    owners: row.passed === 'none' && keys.dedupe !== null,
    group: (row.passed === 'none' || row.passed === 'dedupe') && isGrouped && row.replayOf === null,
    bucket: row.passed !== 'rate' && row.passed !== 'start' && keys.rate !== null,
    order: row.passed !== 'start' && keys.order !== null,
    room: row.passed !== 'start',
    schedule: row.passed !== 'start' && row.schedule !== null,
    circle: row.passed !== 'start' && row.upstream !== null,
  };
}

export interface FactNeeds {
  readonly owners: boolean;
  readonly group: boolean;
  readonly bucket: boolean;
  readonly order: boolean;
  readonly room: boolean;
  readonly schedule: boolean;
  readonly circle: boolean;
}

/** The key by which deliveries are in one group. */
export function findGroupKey({ debounce, batch }: DeliveryKeys): string | null {
  return debounce ?? batch;
}
