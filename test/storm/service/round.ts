/** One round against the HTTP API: five runs start, twenty readers follow them, and kills fall in both phases. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Rig } from '../../e2e/rig.ts';
import { runsDir } from '../../../store/state-folder.ts';
import type { Phases } from '../phases.ts';
import type { Random } from '../random.ts';
import { awaitAnswer, DOORS, type Door, isAccepted, readText, repeatUntil, sendTo, type Service } from './client.ts';
import { findKeyFaults, findListFaults, findReaderFaults, findRunFaults } from './findings.ts';
import { readRun, type Reading } from './reader.ts';
import { describeStrike, planRound, type Strike, type Target } from './strikes.ts';

export const RUNS = 5;
export const READERS_OF_A_RUN = 4;
/** For everything of a round, on a machine with a load of 30. */
const ROUND_LIMIT_MS = 5 * 60_000;
/** Each takes one second. */
const PAUSES = 2;
/** Each answer is read as often, because a client may have lost the first one. */
const ANSWERS_OF_A_KEY = 2;
const STEP_POLL_MS = 1;
const TARGET_LIMIT_MS = 5_000;

const PATTERNS: Readonly<Record<Exclude<Target, 'supervisor'>, RegExp>> = {
  service: /dist\/server\/main\.js/,
  postgres: /^\S*\/native\/bin\/postgres -D/,
};

export interface ServiceRound {
  readonly rig: Rig;
  readonly service: Service;
  readonly phases: Phases;
}

export interface ServiceRoundReport {
  readonly strikes: readonly string[];
  readonly findings: readonly string[];
  /** Connections of all readers together. */
  readonly connections: number;
}

export async function playServiceRound(
  { rig, service, phases }: ServiceRound,
  round: number,
  random: Random,
): Promise<ServiceRoundReport> {
  const endAtMs = Date.now() + ROUND_LIMIT_MS;
  const plan = planRound(round, random);
  const name = `round-${round}`;
  const strikes: string[] = [];
  const strike = async (each: Strike): Promise<void> => {
    strikes.push(await deliver(rig, each));
  };
  // The service ends when it is not used, and its start would hide the first strike.
  await phases.of('up', async () => {
    await repeatUntil('the service', endAtMs, async () => await readAnswer(service, 'tcp', 'version'));
  });
  const known = listRunFolders(rig);
  const keys = Array.from({ length: RUNS }, (_, at) => ({ key: `${name}.${at}`, door: DOORS[at % 2]! }));
  const [struck, ...starts] = await phases.of(
    'begin',
    async () =>
      await Promise.allSettled([
        deliverAtStep(rig, plan.whileStarting, known),
        ...keys.map(async ({ key, door }) => await startByKey(service, { key, door, name, endAtMs })),
      ]),
  );
  strikes.push(takeValue(struck));
  const answered = starts.map(takeValue);
  const runIds = answered.map(([runId]) => runId!);
  const readers = runIds.flatMap((runId) =>
    Array.from({ length: READERS_OF_A_RUN }, (_, at) => ({ runId, door: DOORS[at % 2]! })),
  );
  const [readings] = await phases.of(
    'finish',
    async () =>
      await Promise.all([
        Promise.allSettled(readers.map(async ({ runId, door }) => await readRun(service, door, runId, endAtMs))),
        ...plan.whileFollowing.map(strike),
      ]),
  );
  const findings = await phases.of('records', async () => [
    ...keys.flatMap(({ key }, at) => findKeyFaults(key, answered[at]!)),
    ...findListFaults(runIds, await listRuns(service, name, endAtMs)),
    ...(await checkReadings(rig, readers, readings)),
  ]);
  const connections = readings.reduce(
    (sum, each) => sum + (each.status === 'fulfilled' ? each.value.connections : 0),
    0,
  );
  return { strikes, findings, connections };
}

/** All of a round end before one of them fails, because a later round must not meet the others. */
function takeValue<T>(settled: PromiseSettledResult<T>): T {
  if (settled.status === 'rejected') throw settled.reason;
  return settled.value;
}

async function checkReadings(
  rig: Rig,
  readers: readonly { readonly runId: string; readonly door: Door }[],
  readings: readonly PromiseSettledResult<Reading>[],
): Promise<readonly string[]> {
  const findings: string[] = [];
  for (const runId of new Set(readers.map((reader) => reader.runId))) {
    const log = (await rig.events(runId)).map(({ seq, id, body }) => ({ seq, id, type: body.type }));
    findings.push(...findRunFaults(runId, log));
    for (const [at, reader] of readers.entries()) {
      if (reader.runId !== runId) continue;
      const reading = readings[at]!;
      const who = `reader ${at} of ${runId} (${reader.door})`;
      if (reading.status === 'rejected') findings.push(`${who}: ${String(reading.reason)}`);
      else findings.push(...findReaderFaults(who, reading.value, log));
    }
  }
  return findings;
}

interface KeyedStart {
  readonly key: string;
  readonly door: Door;
  /** The name of the spec, by which the runs of a round are listed. */
  readonly name: string;
  readonly endAtMs: number;
}

/** @returns the id of the run, as often as the service has answered */
async function startByKey(service: Service, { key, door, name, endAtMs }: KeyedStart): Promise<readonly string[]> {
  const place = door === 'socket' ? { baseDir: '/' } : { uploads: {} };
  const body = JSON.stringify({ spec: describeRun(name), ...place, mock: 'all' });
  const ids: string[] = [];
  while (ids.length < ANSWERS_OF_A_KEY) {
    const { runId } = await repeatUntil(`the start of ${key} (${door})`, endAtMs, async () => {
      const sent = sendTo(service, door, 'runs', { method: 'POST', headers: { 'idempotency-key': key }, body });
      const answer = await awaitAnswer(sent);
      if (!(await isAccepted(answer, [200, 201], `the start of ${key} (${door})`))) return null;
      return JSON.parse(await readText(answer)) as { readonly runId: string };
    });
    ids.push(runId);
  }
  return ids;
}

/** A run without a VM that takes two seconds. */
function describeRun(name: string): string {
  const steps = Array.from({ length: PAUSES }, (_, at) => [
    mockStep(`work-${at}`, at === 0 ? null : `end-${at - 1}`),
    { name: `pause-${at}`, depends_on: [`work-${at}`], wait: { for: '1s' } },
    mockStep(`end-${at}`, `pause-${at}`),
  ]);
  const workflow = { output_step: `end-${PAUSES - 1}`, steps: steps.flat() };
  return JSON.stringify({ api_version: 'v1', kind: 'workflow', name, workflow });
}

function mockStep(name: string, after: string | null): unknown {
  const work = { mock: { output: name }, run: { program: 'echo', args: [name] } };
  return { name, ...(after === null ? {} : { depends_on: [after] }), ...work };
}

async function listRuns(service: Service, name: string, endAtMs: number): Promise<readonly string[]> {
  const path = `runs?limit=200&name=${name}`;
  const { runs } = await repeatUntil('the list of runs', endAtMs, async () => {
    return (await readAnswer(service, 'socket', path)) as {
      readonly runs: readonly { readonly runId: string }[];
    } | null;
  });
  return runs.map(({ runId }) => runId);
}

async function readAnswer(service: Service, door: Door, path: string): Promise<unknown> {
  const answer = await awaitAnswer(sendTo(service, door, path, {}));
  return (await isAccepted(answer, [200], path)) ? (JSON.parse(await readText(answer)) as unknown) : null;
}

function listRunFolders(rig: Rig): ReadonlySet<string> {
  const folder = runsDir(rig.stateDir);
  return new Set(existsSync(folder) ? readdirSync(folder) : []);
}

/** The target is known before the step, because a search for it takes longer than a step. */
async function deliverAtStep(rig: Rig, strike: Strike, known: ReadonlySet<string>): Promise<string> {
  const { step, target, atMs } = strike;
  if (step === null) return await deliver(rig, strike);
  const pid = findTarget(rig, target);
  const isReached = (): boolean =>
    [...listRunFolders(rig)].some((run) => !known.has(run) && existsSync(join(runsDir(rig.stateDir), run, step)));
  const end = Date.now() + atMs;
  while (!isReached() && Date.now() < end) await sleep(STEP_POLL_MS);
  return await killTarget(rig, strike, pid);
}

async function deliver(rig: Rig, strike: Strike): Promise<string> {
  await sleep(strike.atMs);
  // Another strike may have ended it a moment ago.
  let pid = findTarget(rig, strike.target);
  for (const end = Date.now() + TARGET_LIMIT_MS; pid === null && Date.now() < end; pid = findTarget(rig, strike.target))
    await sleep(50);
  return await killTarget(rig, strike, pid);
}

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
