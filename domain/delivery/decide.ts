/**
 * Decides about a delivery: `accept → decide → start → record`. A delivery passes its gates in their order. A gate that
 * makes it wait is entered again when the delivery is due; a gate that it has passed is not.
 */
import type { ErrorCode } from '../errors/codes.ts';
import { isAfter } from './gates.ts';
import { findGroupRule, type GroupRule, joinGroup, makeGroup } from './grouping.ts';
import { MOST_LINKS, MOST_OPEN_RUNS } from './delivery.ts';
import { NO_FACTS } from './row-changes.ts';
import { describeCircle } from './links.ts';
import { dropForPause, findLateProblem, findOverlap } from './scheduled.ts';
import type {
  Decider,
  DecidedDelivery,
  Decision,
  DecisionContext,
  Leader,
  LeaderChange,
  Next,
  StoreFacts,
} from './decision.ts';

/** The store makes a delivery due when its reason to wait ends. These pauses are for ends that it missed. */
export const RECHECK_MS = { paused: 60_000, group: 100, order: 1_000, overlap: 5_000, room: 60_000 } as const;

/** A number of the bucket may be wrong by this part of a millisecond, because it is a double. */
const BUCKET_ERROR_MS = 0.01;

interface Ask extends DecisionContext {
  readonly delivery: DecidedDelivery;
  readonly facts: StoreFacts;
  readonly nowMs: number;
}

type Progress = Omit<Decision, 'next'>;
type EnterGate = (ask: Ask, progress: Progress) => Progress | Decision;

export function createDecide(context: DecisionContext): Decider {
  return (delivery, facts, nowMs) => {
    const ask: Ask = { ...context, delivery, facts, nowMs };
    let progress: Progress = {
      passed: delivery.passed,
      ownsKey: delivery.ownsKey,
      group: delivery.group,
      leader: null,
      bucketFullAtMs: null,
      closesGroup: false,
    };
    for (const enter of IN_ORDER) {
      const entered = enter(ask, progress);
      if ('next' in entered) return entered;
      progress = entered;
    }
    // Concurrency keys and priorities belong here: the delivery could start now.
    return startRun(ask, progress);
  };
}

/**
 * Decides about a delivery whose condition does not hold. No later gate matters to it, so that the store reads none of
 * their facts.
 * @returns null: the decision needs the facts of the store
 */
export function decideWithoutFacts(
  decide: Decider,
  delivery: DecidedDelivery,
  pause: Pick<StoreFacts, 'pause' | 'isDeleted'>,
  nowMs: number,
): Decision | null {
  if (delivery.passed !== 'none' || delivery.upstream !== null) return null;
  const decision = decide(delivery, { ...NO_FACTS, ...pause }, nowMs);
  const { next } = decision;
  return next.kind === 'filter' && next.code === 'trigger/no-match' ? decision : null;
}

const IN_ORDER: readonly EnterGate[] = [
  checkLife,
  checkChain,
  filter,
  deduplicate,
  checkTime,
  waitForPerson,
  waitForGroup,
  takeToken,
  keepOrder,
  checkOverlap,
  findRoom,
];

function checkLife({ delivery, facts, nowMs }: Ask, progress: Progress): Progress | Decision {
  const { deployment, expiresAtMs } = delivery;
  if (facts.isDeleted)
    return refuse(progress, 'trigger/deployment-deleted', `the deployment ${deployment} was deleted`);
  // A run whose start failed may have started.
  if (expiresAtMs === null || nowMs <= expiresAtMs || progress.passed === 'start') return progress;
  return refuse(progress, 'trigger/expired', `its time to live ended at ${new Date(expiresAtMs).toISOString()}`);
}

/** Deployments may have changed since the end of the run. A run whose start failed may have started. */
function checkChain({ delivery: { upstream }, facts: { circle } }: Ask, progress: Progress): Progress | Decision {
  if (upstream === null || progress.passed === 'start') return progress;
  if (circle !== null)
    return refuse(progress, 'trigger/circle', `deployments follow each other: ${describeCircle(circle)}`);
  if (upstream.links <= MOST_LINKS) return progress;
  return refuse(
    progress,
    'trigger/long-chain',
    `the end of the run ${upstream.runId} is link ${upstream.links} of its chain, which has at most ${MOST_LINKS}`,
  );
}

function filter({ evaluation, trigger }: Ask, progress: Progress): Progress | Decision {
  if (progress.passed !== 'none' || evaluation.holds) return progress;
  return drop(progress, 'trigger/no-match', `\`when\` of the trigger ${trigger.name} does not hold`);
}

/** A delivery owns its key for a time that begins with its acceptance. Equal keys in this time are duplicates. */
function deduplicate({ delivery, evaluation, facts, trigger }: Ask, progress: Progress): Progress | Decision {
  if (isAfter(progress.passed, 'none')) return progress;
  // A person replays a delivery although its key has an owner.
  if (evaluation.keys.dedupe === null || delivery.replayOf !== null) return { ...progress, passed: 'dedupe' };
  const { forMs } = trigger.dedupe;
  const { ownerBefore, ownerAfter } = facts;
  const owner =
    ownerBefore !== null && delivery.acceptedAtMs < ownerBefore.acceptedAtMs + forMs
      ? ownerBefore
      : ownerAfter !== null && ownerAfter.acceptedAtMs < delivery.acceptedAtMs + forMs
        ? ownerAfter
        : null;
  if (owner === null) return { ...progress, passed: 'dedupe', ownsKey: true };
  return makeDecision(progress, { kind: 'deduplicate', into: owner.id });
}

/** Times that passed while nothing could start them. Only the first decision looks: a delivery may wait for long. */
function checkTime({ delivery, trigger }: Ask, progress: Progress): Progress | Decision {
  if (delivery.passed !== 'none') return progress;
  const problem = findLateProblem(trigger, delivery);
  return problem === null ? progress : drop(progress, 'trigger/missed', problem);
}

function waitForPerson({ delivery, facts, nowMs }: Ask, progress: Progress): Progress | Decision {
  const problem = dropForPause(delivery, facts);
  if (problem !== null) return drop(progress, 'trigger/paused', problem);
  // After its first try the run may have started, so it is not dropped.
  if (facts.pause === 'drop' && progress.passed !== 'start')
    return drop(progress, 'trigger/paused', `the deployment ${delivery.deployment} is paused and drops its deliveries`);
  if (facts.pause !== null)
    return makeDecision(progress, { kind: 'hold', hold: 'paused', dueAtMs: nowMs + RECHECK_MS.paused });
  const { notBeforeMs } = delivery;
  if (notBeforeMs === null || nowMs >= notBeforeMs) return progress;
  return makeDecision(progress, { kind: 'hold', hold: 'delay', dueAtMs: notBeforeMs });
}

function waitForGroup(ask: Ask, progress: Progress): Progress | Decision {
  if (isAfter(progress.passed, 'dedupe')) return progress;
  const rule = findGroupRule(ask.trigger);
  if (rule === null || ask.delivery.replayOf !== null) return { ...progress, passed: 'group' };
  if (progress.group !== null) return closeGroup(ask, progress, rule);
  const { delivery, facts } = ask;
  const { leader } = facts;
  if (leader !== null && isOpenFor(rule, leader, delivery)) return join(ask, progress, rule, leader);
  return closeGroup(ask, { ...progress, group: makeGroup(delivery) }, rule);
}

/** A delivery that is decided late may be older than the group, and then has to reach it. */
function isOpenFor(rule: GroupRule, { group }: Leader, delivery: DecidedDelivery): boolean {
  const isReached = group.firstAtMs < rule.findEnd(makeGroup(delivery));
  return isReached && delivery.acceptedAtMs < rule.findEnd(group) && rule.hasRoom(group, delivery);
}

function join({ delivery, nowMs }: Ask, progress: Progress, rule: GroupRule, leader: Leader): Decision {
  const group = joinGroup(leader.group, delivery);
  const dueAtMs = rule.isFull(group) ? nowMs : rule.findEnd(group);
  const { id } = leader;
  if ((rule.leader === 'first') !== leader.isLater) {
    const change: LeaderChange = { kind: 'wait', id, group, dueAtMs };
    return makeDecision({ ...progress, group, leader: change }, { kind: 'merge', into: id });
  }
  const change: LeaderChange = { kind: 'merge', id };
  return makeDecision({ ...progress, group, leader: change }, { kind: 'hold', hold: rule.hold, dueAtMs });
}

function closeGroup({ facts, nowMs }: Ask, progress: Progress, rule: GroupRule): Progress | Decision {
  const group = progress.group!;
  const closed: Progress = { ...progress, passed: 'group', closesGroup: group.count > 1 };
  if (rule.isFull(group)) return closed;
  const endMs = rule.findEnd(group);
  const wait = (dueAtMs: number): Decision => makeDecision(progress, { kind: 'hold', hold: rule.hold, dueAtMs });
  if (nowMs < endMs) return wait(endMs);
  // After an outage, deliveries that belong to the group may not be decided yet.
  const isUndecided = facts.firstUndecidedAtMs !== null && facts.firstUndecidedAtMs < endMs;
  return isUndecided ? wait(nowMs + RECHECK_MS.group) : closed;
}

/**
 * A token bucket as one number: the time by which all tokens are back. A delivery without a token takes a later one,
 * and waits for its time, so that no later delivery is before it.
 */
function takeToken({ delivery, facts, nowMs, trigger }: Ask, progress: Progress): Progress | Decision {
  if (isAfter(progress.passed, 'group')) return progress;
  const { rate } = trigger;
  const passed: Progress = { ...progress, passed: 'rate' };
  if (rate === null || delivery.replayOf !== null) return passed;
  const { limit, perMs, onLimit } = rate;
  // A clock that was set back would block a bucket that drops until its earlier time.
  const latestMs = onLimit === 'drop' ? nowMs + perMs : Number.POSITIVE_INFINITY;
  const fullAtMs = Math.min(Math.max(facts.bucketFullAtMs ?? nowMs, nowMs), latestMs) + perMs / limit;
  const tokenAtMs = fullAtMs - perMs;
  if (tokenAtMs - nowMs < BUCKET_ERROR_MS) return { ...passed, bucketFullAtMs: fullAtMs };
  if (onLimit === 'drop')
    return drop(progress, 'trigger/rate-limited', `${limit} runs have started within ${perMs} ms`);
  return makeDecision(
    { ...passed, bucketFullAtMs: fullAtMs },
    { kind: 'hold', hold: 'rate', dueAtMs: Math.ceil(tokenAtMs) },
  );
}

function keepOrder({ facts, nowMs, trigger }: Ask, progress: Progress): Progress | Decision {
  if (trigger.order === null || !facts.isBehind || progress.passed === 'start') return progress;
  return makeDecision(progress, { kind: 'hold', hold: 'order', dueAtMs: nowMs + RECHECK_MS.order });
}

/** The runs of one schedule. A delivery that waits starts after those for earlier times. */
function checkOverlap({ delivery, facts, nowMs, trigger }: Ask, progress: Progress): Progress | Decision {
  const overlap = findOverlap(trigger, delivery, facts);
  switch (overlap.kind) {
    case 'none':
      return progress;
    case 'skip':
      return drop(progress, 'trigger/overlap', overlap.message);
    case 'wait':
      return makeDecision(progress, { kind: 'hold', hold: 'overlap', dueAtMs: nowMs + RECHECK_MS.overlap });
  }
}

function findRoom({ facts, nowMs }: Ask, progress: Progress): Progress | Decision {
  if (progress.passed === 'start') return progress;
  if (facts.openRuns < MOST_OPEN_RUNS && !facts.isBehindRoom) return progress;
  return makeDecision(progress, { kind: 'hold', hold: 'open-runs', dueAtMs: nowMs + RECHECK_MS.room });
}

function startRun({ delivery }: Ask, progress: Progress): Decision {
  const runId = nameRunOf(delivery);
  return makeDecision({ ...progress, passed: 'start' }, { kind: 'start', runId });
}

/** The id of a delivery's run follows from the delivery, so that no second run can start. */
export function nameRunOf({ deployment, id }: Pick<DecidedDelivery, 'deployment' | 'id'>): string {
  return `${deployment}-${id}`;
}

function makeDecision(progress: Progress, next: Next): Decision {
  return { ...progress, next };
}

/** A sender may send the delivery again, so it does not keep its key. */
function drop(progress: Progress, code: ErrorCode, message: string): Decision {
  return makeDecision({ ...progress, ownsKey: false }, { kind: 'filter', code, message });
}

function refuse(progress: Progress, code: ErrorCode, message: string): Decision {
  return makeDecision({ ...progress, ownsKey: false }, { kind: 'refuse', code, message });
}
