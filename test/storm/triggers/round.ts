/** One round against triggers: senders send events, kills fall, and each event has one run. */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { runDir, runsDir } from '../../../store/state-folder.ts';
import type { Rig } from '../../e2e/rig.ts';
import type { Phases } from '../phases.ts';
import { type Random, randomOf } from '../random.ts';
import { awaitAnswer, isAccepted, readText, repeatUntil, sendTo, type Service } from '../service/client.ts';
import { findDeliveryFaults, findRunFaults, type FoundRun, isOpen, type ListedDelivery } from './findings.ts';
import { DEPLOYMENT, sendSequence, type Sequence } from './sender.ts';
import { describeStrike, planStrikes, type Strike, type Target } from './strikes.ts';

/** For everything of a round, on a busy machine. */
const ROUND_LIMIT_MS = 150_000;
const STEP_POLL_MS = 1;
const TARGET_LIMIT_MS = 5_000;
const SETTLE_POLL_MS = 200;
/** A page of deliveries. */
const PAGE = 200;

export interface TriggerRound {
  readonly rig: Rig;
  readonly service: Service;
  readonly phases: Phases;
  /** Ids of deliveries of earlier rounds on this stack: by now the service knows that their runs have ended. */
  readonly earlier: Set<string>;
}

export interface TriggerRoundReport {
  readonly strikes: readonly string[];
  readonly findings: readonly string[];
}

export async function playTriggerRound(
  { rig, service, phases, earlier }: TriggerRound,
  round: number,
  random: Random,
): Promise<TriggerRoundReport> {
  const endAtMs = Date.now() + ROUND_LIMIT_MS;
  const strikes = planStrikes(round, random);
  const sequences = planSequences(`r${round}`);
  const seeds = sequences.map(() => random.below(1_000_000));
  const known = listRuns(rig);
  const [events, struck] = await phases.of('begin', async () => {
    const sending = Promise.allSettled(
      sequences.map(async (each, at) => await sendSequence(each, { service, endAtMs, random: randomOf(seeds[at]!) })),
    );
    const striking = Promise.allSettled(strikes.map(async (each) => await deliver(rig, each, known)));
    return [(await sending).flatMap(takeValue), (await striking).map(takeValue)] as const;
  });
  const rows = await phases.of('finish', async () => await awaitOutcomes(rig, service, { earlier, endAtMs }));
  const findings = await phases.of('records', async () => {
    const runs = await readRuns(rig, known);
    return [...findDeliveryFaults(events, rows), ...findRunFaults(events, rows, runs)];
  });
  for (const { id } of rows) earlier.add(id);
  return { strikes: struck, findings };
}

function planSequences(name: string): readonly Sequence[] {
  return [
    { trigger: 'ordered', key: `${name}.o1`, events: 3 },
    { trigger: 'ordered', key: `${name}.o2`, events: 3 },
    { trigger: 'merged', key: `${name}.m`, events: 4 },
    { trigger: 'api', key: `${name}.a`, events: 3 },
  ];
}

/** All of a round end before one of them fails, because a later round must not meet the others. */
function takeValue<T>(settled: PromiseSettledResult<T>): T {
  if (settled.status === 'rejected') throw settled.reason;
  return settled.value;
}

interface Settling {
  readonly earlier: ReadonlySet<string>;
  readonly endAtMs: number;
}

/**
 * Waits until each delivery of the round has its outcome and each of its runs has ended, and until the service knows
 * the ends of earlier runs.
 * @returns the deliveries of the round, the oldest first; at the limit as they are
 * @throws Error if the service does not learn of an end
 */
export async function awaitOutcomes(
  rig: Rig,
  service: Service,
  { earlier, endAtMs }: Settling,
): Promise<readonly ListedDelivery[]> {
  for (;;) {
    const all = await listDeliveries(service, endAtMs);
    const own = all.filter(({ id }) => !earlier.has(id)).toReversed();
    const unknown = all.filter((row) => earlier.has(row.id) && row.state === 'started' && row.runEndedAtMs === null);
    if (!own.some(isOpen) && unknown.length === 0 && (await haveEnded(rig, own))) return own;
    if (Date.now() > endAtMs) {
      if (unknown.length > 0) throw new Error(`ends that the service does not know: ${JSON.stringify(unknown)}`);
      return own;
    }
    await sleep(SETTLE_POLL_MS);
  }
}

async function haveEnded(rig: Rig, rows: readonly ListedDelivery[]): Promise<boolean> {
  for (const { runId } of rows) if (runId !== null && !(await rig.hasEvent(runId, 'run-finished'))) return false;
  return true;
}

async function listDeliveries(service: Service, endAtMs: number): Promise<readonly ListedDelivery[]> {
  const what = 'the list of deliveries';
  const { deliveries } = await repeatUntil(what, endAtMs, async () => {
    const path = `deliveries?limit=${PAGE}&deployment=${DEPLOYMENT}`;
    const answer = await awaitAnswer(sendTo(service, 'tcp', path, {}));
    if (!(await isAccepted(answer, [200], what))) return null;
    return JSON.parse(await readText(answer)) as { readonly deliveries: readonly ListedDelivery[] };
  });
  return deliveries;
}

export function listRuns(rig: Rig): ReadonlySet<string> {
  const folder = runsDir(rig.stateDir);
  return new Set(existsSync(folder) ? readdirSync(folder) : []);
}

export async function readRuns(rig: Rig, known: ReadonlySet<string>): Promise<ReadonlyMap<string, FoundRun>> {
  const found = new Map<string, FoundRun>();
  for (const runId of listRuns(rig)) {
    if (known.has(runId)) continue;
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

async function deliver(rig: Rig, strike: Strike, known: ReadonlySet<string>): Promise<string> {
  const { step, target, atMs } = strike;
  // The target is known before the step, because a search for it takes longer than a step.
  const early = step === null ? null : findTarget(rig, target);
  if (step === null) await sleep(atMs);
  else await awaitStep(rig, known, step, Date.now() + atMs);
  let pid = early ?? findTarget(rig, target);
  // Another strike may have ended it a moment ago.
  for (const end = Date.now() + TARGET_LIMIT_MS; pid === null && Date.now() < end; pid = findTarget(rig, target))
    await sleep(50);
  return await killTarget(rig, strike, pid);
}

async function awaitStep(rig: Rig, known: ReadonlySet<string>, step: string, endAtMs: number): Promise<void> {
  const isReached = (): boolean =>
    [...listRuns(rig)].some((run) => !known.has(run) && existsSync(join(runDir(rig.stateDir, run), step)));
  while (!isReached() && Date.now() < endAtMs) await sleep(STEP_POLL_MS);
}

const PATTERNS: Readonly<Record<Exclude<Target, 'supervisor'>, RegExp>> = {
  service: /dist\/server\/main\.js/,
  postgres: /^\S*\/native\/bin\/postgres -D/,
  temporal: /^\S*temporal\S* server start-dev/,
  worker: /dist\/workers\/main\.js/,
};

function findTarget(rig: Rig, target: Target): number | null {
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
