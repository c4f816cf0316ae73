/** One round against triggers: senders send events, kills fall, and each event has one run. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { runDir, runsDir } from '../../../store/state-folder.ts';
import type { Rig } from '../../e2e/rig.ts';
import type { Phases } from '../phases.ts';
import { type Random, randomOf } from '../random.ts';
import { awaitAnswer, isAccepted, readText, repeatUntil, sendTo, type Service } from '../service/client.ts';
import {
  findDeliveryFaults,
  findRunFaults,
  findStrayFaults,
  type FoundRun,
  isOpen,
  type ListedDelivery,
  listOwn,
  type SentEvent,
} from './findings.ts';
import type { Outside } from './outside.ts';
import { describeTime, sendSequence, type Sequence } from './sender.ts';
import { DEPLOYMENT, SCHEDULE_MS, TIMED } from './spec.ts';
import { describeStrike, planStrikes, RUN_END, type Step, type Strike, type Target } from './strikes.ts';

/** For everything of a round, on a machine with a load of 30: a worker that was killed takes half a minute to start there. */
const ROUND_LIMIT_MS = 5 * 60_000;
const STEP_POLL_MS = 1;
const TARGET_LIMIT_MS = 5_000;
const SETTLE_POLL_MS = 200;
/** After the limit of a round, its deliveries are still listed once. */
const LAST_LIST_MS = 20_000;
/** A page of deliveries. */
const PAGE = 200;

/** A stack with its deployment, and the systems around it. */
export interface Lane {
  readonly rig: Rig;
  readonly service: Service;
  readonly outside: Outside;
  /** Deliveries and runs of earlier rounds. By now the service knows that these runs have ended. */
  readonly earlier: Earlier;
}

export interface Earlier {
  /** Ids of deliveries. */
  readonly deliveries: Set<string>;
  readonly runs: Set<string>;
  /** The runs of these that another deployment must follow. */
  readonly followed: Set<string>;
  /** The latest time of the schedule that was looked at, or that passed before the deployment. */
  firedUntilMs: number;
  /** The first time that the schedule must start. It may have started an earlier one during the deployment. */
  readonly firstFiredMs: number;
}

export interface TriggerRoundReport {
  readonly strikes: readonly string[];
  readonly findings: readonly string[];
}

export async function playTriggerRound(
  lane: Lane,
  phases: Phases,
  round: number,
  random: Random,
): Promise<TriggerRoundReport> {
  const { rig, service, outside, earlier } = lane;
  const endAtMs = Date.now() + ROUND_LIMIT_MS;
  const hasQueue = outside.broker !== null;
  const strikes = planStrikes(round, random, hasQueue);
  const sequences = planSequences(`r${round}`, hasQueue);
  const seeds = sequences.map(() => random.below(1_000_000));
  const known = listRuns(rig);
  const [sent, struck] = await phases.of('begin', async () => {
    const sending = Promise.allSettled(
      sequences.map(
        async (each, at) => await sendSequence(each, { service, outside, endAtMs, random: randomOf(seeds[at]!) }),
      ),
    );
    const striking = Promise.allSettled(strikes.map(async (each) => await deliver(lane, each, known)));
    return [(await sending).flatMap(takeValue), (await striking).map(takeValue)] as const;
  });
  const horizonMs = Date.now();
  const wanted = [...sent, ...listFired(findFiredUntil(earlier), horizonMs)];
  const [settled, left] = await phases.of('finish', async () => {
    const found = await awaitOutcomes(lane, wanted, endAtMs);
    return [found, await outside.listLeft()] as const;
  });
  const findings = await phases.of('records', async () => [
    ...left,
    ...(await findFaults(lane, sent, settled, horizonMs)),
  ]);
  return { strikes: struck, findings };
}

/**
 * Compares the events of a round with its deliveries and its runs. Later rounds look at none of these again.
 * @param horizonMs  the schedule must have started each time until this one, and it may have started later ones
 */
export async function findFaults(
  { rig, earlier }: Pick<Lane, 'rig' | 'earlier'>,
  sent: readonly SentEvent[],
  { rows, runIds }: Settled,
  horizonMs: number,
): Promise<readonly string[]> {
  const fired = listFiredTimes(rows);
  const untilMs = Math.max(horizonMs, ...fired);
  const early = fired.filter((atMs) => atMs > earlier.firedUntilMs && atMs < earlier.firstFiredMs);
  const due = listFired(findFiredUntil(earlier), untilMs);
  const events = [...sent, ...early.map((atMs) => describeTime(atMs)), ...due];
  const runs = await readRuns(rig, [...runIds, ...rows.flatMap(({ runId }) => runId ?? [])], earlier.runs);
  earlier.firedUntilMs = untilMs;
  for (const { id } of rows) earlier.deliveries.add(id);
  for (const runId of runs.keys()) earlier.runs.add(runId);
  for (const { trigger, state, runId } of rows)
    if (trigger === 'files' && state === 'started') earlier.followed.add(runId!);
  return [...findDeliveryFaults(events, rows), ...findStrayFaults(events, rows), ...findRunFaults(events, rows, runs)];
}

/** Each event costs a run, and a round of eight in `npm test` must be short. */
function planSequences(name: string, hasQueue: boolean): readonly Sequence[] {
  return [
    { trigger: 'ordered', key: `${name}.o`, events: 3 },
    { trigger: 'merged', key: `${name}.m`, events: 2 },
    { trigger: 'api', key: `${name}.a`, events: 1 },
    { trigger: TIMED, key: `${name}.t`, events: 1 },
    { trigger: 'files', key: `${name}.f`, events: 1 },
    { trigger: 'rows', key: `${name}.r`, events: 1 },
    ...(hasQueue ? [{ trigger: 'messages', key: `${name}.q`, events: 2 } as const] : []),
    { trigger: 'events', key: `${name}.e`, events: 1 },
  ];
}

/** The times of the schedule that have a delivery, without those that a person asked for. */
function listFiredTimes(rows: readonly ListedDelivery[]): readonly number[] {
  return rows.flatMap(({ schedule }) => (schedule === null || schedule.isAsked ? [] : [schedule.atMs]));
}

function findFiredUntil({ firedUntilMs, firstFiredMs }: Earlier): number {
  return Math.max(firedUntilMs, firstFiredMs - 1);
}

/** The events of the times after one and until another, which the server of Temporal starts. */
function listFired(afterMs: number, untilMs: number): readonly SentEvent[] {
  const events: SentEvent[] = [];
  for (let atMs = nextTime(afterMs); atMs <= untilMs; atMs += SCHEDULE_MS) events.push(describeTime(atMs));
  return events;
}

function nextTime(afterMs: number): number {
  return (Math.floor(afterMs / SCHEDULE_MS) + 1) * SCHEDULE_MS;
}

/** All of a round end before one of them fails, because a later round must not meet the others. */
function takeValue<T>(settled: PromiseSettledResult<T>): T {
  if (settled.status === 'rejected') throw settled.reason;
  return settled.value;
}

export interface Settled {
  /** The deliveries of the round, the oldest first. */
  readonly rows: readonly ListedDelivery[];
  /** The runs that existed before the deliveries were listed, also those of earlier rounds. */
  readonly runIds: readonly string[];
}

/**
 * Waits until each event has a delivery, each delivery of the round its outcome, each of its runs an end, and until the
 * service knows the ends of earlier runs.
 * @returns at the limit as it is
 * @throws Error if the service does not learn of an end
 */
export async function awaitOutcomes(
  { rig, service, earlier }: Pick<Lane, 'rig' | 'service' | 'earlier'>,
  events: readonly SentEvent[],
  endAtMs: number,
): Promise<Settled> {
  const isEarlier = ({ id }: ListedDelivery): boolean => earlier.deliveries.has(id);
  for (;;) {
    // The schedule never pauses: a run that exists now has its delivery in a later list.
    const runIds = [...listRuns(rig)];
    const all = await listDeliveries(service, DEPLOYMENT, endAtMs + LAST_LIST_MS);
    const rows = all.filter((row) => !isEarlier(row)).toReversed();
    const unknown = all.filter((row) => isEarlier(row) && row.state === 'started' && row.runEndedAtMs === null);
    // Times may arrive in another order, and one before the latest is then still on its way.
    const due = [...events, ...listFired(findFiredUntil(earlier), Math.max(0, ...listFiredTimes(rows)))];
    const isWhole = due.every((event) => listOwn(event, rows).length > 0) && !rows.some(isOpen);
    if (isWhole && unknown.length === 0 && (await haveEnded(rig, rows))) return { rows, runIds };
    if (Date.now() > endAtMs) {
      if (unknown.length > 0) throw new Error(`ends that the service does not know: ${JSON.stringify(unknown)}`);
      return { rows, runIds };
    }
    await sleep(SETTLE_POLL_MS);
  }
}

export async function haveEnded(rig: Rig, rows: readonly ListedDelivery[]): Promise<boolean> {
  for (const { runId } of rows) if (runId !== null && !(await rig.hasEvent(runId, 'run-finished'))) return false;
  return true;
}

/** @returns the deliveries of a deployment on one page, the latest first */
export async function listDeliveries(
  service: Service,
  deployment: string,
  endAtMs: number,
): Promise<readonly ListedDelivery[]> {
  const what = 'the list of deliveries';
  const { deliveries } = await repeatUntil(what, endAtMs, async () => {
    const path = `deliveries?limit=${PAGE}&deployment=${deployment}`;
    const answer = await awaitAnswer(sendTo(service, 'tcp', path, {}));
    if (!(await isAccepted(answer, [200], what))) return null;
    return JSON.parse(await readText(answer)) as { readonly deliveries: readonly ListedDelivery[] };
  });
  return deliveries;
}

/** The runs of the storm, and none that follow them. */
function listRuns(rig: Rig): ReadonlySet<string> {
  const folder = runsDir(rig.stateDir);
  return new Set((existsSync(folder) ? readdirSync(folder) : []).filter((name) => name.startsWith(`${DEPLOYMENT}-`)));
}

async function readRuns(
  rig: Rig,
  runIds: readonly string[],
  known: ReadonlySet<string>,
): Promise<ReadonlyMap<string, FoundRun>> {
  const found = new Map<string, FoundRun>();
  const existing = listRuns(rig);
  for (const runId of new Set(runIds)) {
    if (known.has(runId) || !existing.has(runId)) continue;
    const events = await rig.events(runId);
    const end = events.find(({ body }) => body.type === 'run-finished')?.body;
    // A start writes the record before it asks Temporal, and no later start replaces it.
    const record = statSync(join(runDir(rig.stateDir, runId), 'records', 'client.json'), {
      bigint: true,
      throwIfNoEntry: false,
    });
    found.set(runId, {
      types: events.map(({ body }) => body.type),
      state: end?.type === 'run-finished' ? end.outcome.state : null,
      startedAtNs: record?.mtimeNs ?? 0n,
    });
  }
  return found;
}

async function deliver({ rig, outside }: Lane, strike: Strike, known: ReadonlySet<string>): Promise<string> {
  const { step, target, atMs } = strike;
  const find = (): number | null => (target === 'nats' ? null : findTarget(rig, target));
  // The target is known before the step, because a search for it takes longer than a step.
  const early = step === null ? null : find();
  if (step === null) await sleep(atMs);
  else await awaitStep(rig, known, step, Date.now() + atMs);
  if (target === 'nats') {
    await outside.broker!.restart();
    return describeStrike(strike);
  }
  let pid = early ?? find();
  // Another strike may have ended it a moment ago.
  for (const end = Date.now() + TARGET_LIMIT_MS; pid === null && Date.now() < end; pid = find()) await sleep(50);
  return await killTarget(rig, strike, pid);
}

function hasEnded(log: string): boolean {
  return existsSync(log) && readFileSync(log, 'utf8').includes('"run-finished"');
}

async function awaitStep(rig: Rig, known: ReadonlySet<string>, step: Step, endAtMs: number): Promise<void> {
  const isAt = (dir: string): boolean =>
    step === RUN_END ? hasEnded(join(dir, 'events.jsonl')) : existsSync(join(dir, step));
  const isReached = (): boolean => [...listRuns(rig)].some((run) => !known.has(run) && isAt(runDir(rig.stateDir, run)));
  while (!isReached() && Date.now() < endAtMs) await sleep(STEP_POLL_MS);
}

const PATTERNS: Readonly<Record<Exclude<Target, 'supervisor' | 'nats'>, RegExp>> = {
  service: /dist\/server\/main\.js/,
  postgres: /^\S*\/native\/bin\/postgres -D/,
  temporal: /^\S*temporal\S* server start-dev/,
  worker: /dist\/workers\/main\.js/,
};

function findTarget(rig: Rig, target: Exclude<Target, 'nats'>): number | null {
  if (target === 'supervisor') {
    const pid = rig.stack()?.supervisorPid;
    return pid !== undefined && rig.processes().some((each) => each.pid === pid) ? pid : null;
  }
  return rig.processes().find(({ command }) => PATTERNS[target].test(command))?.pid ?? null;
}

/** A person starts the stack again; everything else starts again on its own. */
async function killTarget(rig: Rig, strike: Strike, pid: number | null): Promise<string> {
  if (pid === null) return `${describeStrike(strike)} (none there)`;
  try {
    rig.kill(pid);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
  if (strike.target === 'supervisor') {
    const up = await rig.cli('up');
    if (up.code !== 0) throw new Error(`up ended with ${up.code}: ${up.stderr}`);
  }
  return describeStrike(strike);
}
