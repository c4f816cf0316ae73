/** Rounds against triggers, some side by side, each lane on a stack of its own with one deployment. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Rig } from '../../e2e/rig.ts';
import { keepState } from '../keep-state.ts';
import { Phases } from '../phases.ts';
import { randomOf, roundSeed } from '../random.ts';
import { awaitAnswer, readText, sendTo, type Service } from '../service/client.ts';
import { type ServiceStormOptions, startService } from '../service/storm.ts';
import type { StormRound } from '../storm.ts';
import { findFollowerFaults, FOLLOWER, FOLLOWER_SPEC } from './followers.ts';
import { openOutside, type Outside, startApplications } from './outside.ts';
import { type Lane, playTriggerRound } from './round.ts';
import { DEPLOYMENT, listSecrets, TIMED, writeSpec } from './spec.ts';

/** More deliveries would not be on one page. */
const ROUNDS_OF_A_STACK = 4;
const SCHEDULE_POLL_MS = 100;

/** Plays all rounds, and a new stack after each one with a finding. */
export async function stormTriggers(options: ServiceStormOptions): Promise<readonly StormRound[]> {
  const { seed, rounds, firstRound, lanes, onRound, signal } = options;
  const reports: StormRound[] = [];
  const end = firstRound + rounds;
  let next = firstRound;
  await using applications = await startApplications();
  const playLane = async (): Promise<void> => {
    while (next < end && !signal.aborted) {
      await using rig = new Rig();
      await using outside = await openOutside(rig, applications);
      const lane = await openLane(rig, outside);
      // Other lanes may have begun the last rounds while this stack started.
      for (let played = 1, isOver = false; !isOver && next < end; played += 1) {
        const round = next++;
        let report = await play(lane, seed, round);
        const isClean = report.findings.length === 0;
        isOver = !isClean || played === ROUNDS_OF_A_STACK || next >= end || signal.aborted;
        // The last stack must leave nothing.
        if (isClean && isOver) report = await endLane(lane, report, round === end - 1);
        reports.push(report);
        onRound(report);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(lanes, rounds) }, playLane));
  return reports.toSorted((a, b) => a.round - b.round);
}

/** Starts the stack of a lane, and deploys its triggers. @throws Error if one of them fails */
export async function openLane(rig: Rig, outside: Outside): Promise<Lane> {
  const service = await startService(rig, outside.options);
  for (const [name, value] of Object.entries(listSecrets(outside))) {
    const request = { method: 'PUT', body: JSON.stringify({ value }) };
    await requireOk(service, `secrets/${name}`, request);
  }
  const firedUntilMs = Date.now();
  await deploy(rig, DEPLOYMENT, writeSpec(outside));
  await deploy(rig, FOLLOWER, FOLLOWER_SPEC);
  const firstFiredMs = await awaitSchedule(service);
  return {
    rig,
    service,
    outside,
    earlier: { deliveries: new Set(), runs: new Set(), followed: new Set(), firedUntilMs, firstFiredMs },
  };
}

async function deploy(rig: Rig, name: string, spec: string): Promise<void> {
  const { code, stderr } = await rig.cli('deploy', rig.spec(`${name}.yaml`, spec), '--name', name);
  if (code !== 0) throw new Error(`deploy of ${name} ended with ${code}: ${stderr}`);
}

/** The server of Temporal has the schedule a moment later. @returns its next time */
async function awaitSchedule(service: Service): Promise<number> {
  for (;;) {
    const text = await requireOk(service, `deployments/${DEPLOYMENT}/schedules/${TIMED}`, {});
    const { next } = JSON.parse(text) as { readonly next: readonly { readonly at: string }[] | null };
    if (next !== null && next[0] !== undefined) return Date.parse(next[0].at);
    await sleep(SCHEDULE_POLL_MS);
  }
}

async function requireOk(service: Service, path: string, sent: Parameters<typeof sendTo>[3]): Promise<string> {
  const answer = await awaitAnswer(sendTo(service, 'socket', path, sent));
  const text = await readText(answer);
  if (answer.statusCode !== 200) throw new Error(`${path}: ${answer.statusCode} ${text.slice(0, 400)}`);
  return text;
}

async function play(lane: Lane, seed: number, round: number): Promise<StormRound> {
  const startedAt = Date.now();
  const ofRound = roundSeed(seed, round);
  const phases = new Phases();
  let blows: readonly string[] = [];
  const findings = await collect(lane, async () => {
    const report = await playTriggerRound(lane, phases, round, randomOf(ofRound));
    blows = report.strikes;
    return report.findings;
  });
  const [durationMs, phasesMs] = [Date.now() - startedAt, phases.spentMs()];
  return { round, seed: ofRound, durationMs, phasesMs, blows, ...findings };
}

/** @returns the report of the last round of a stack, with what is found at the end of the stack */
async function endLane(lane: Lane, last: StormRound, isDown: boolean): Promise<StormRound> {
  const startedAt = Date.now();
  const phases = new Phases();
  const findings = await collect(lane, async () => {
    const faults = await phases.of('followers', async () => await findFollowerFaults(lane));
    if (isDown) await phases.of('down', async () => await lane.rig.assertNothingLeft());
    return faults;
  });
  const durationMs = last.durationMs + Date.now() - startedAt;
  return { ...last, durationMs, phasesMs: { ...last.phasesMs, ...phases.spentMs() }, ...findings };
}

/** An error is a finding. The state of a stack with a finding is kept. */
async function collect(
  { rig }: Lane,
  work: () => Promise<readonly string[]>,
): Promise<Pick<StormRound, 'findings' | 'keptIn'>> {
  const findings = await work().catch((error: unknown) => [
    error instanceof Error ? (error.stack ?? error.message) : String(error),
  ]);
  return { findings, keptIn: findings.length === 0 ? null : keepState(rig) };
}
