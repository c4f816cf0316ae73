/** Rounds against triggers, some side by side, each lane on a stack of its own with one deployment. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Rig } from '../../e2e/rig.ts';
import { keepState } from '../keep-state.ts';
import { Phases } from '../phases.ts';
import { randomOf, roundSeed } from '../random.ts';
import { awaitAnswer, readText, sendTo, type Service } from '../service/client.ts';
import { type ServiceStormOptions, startService } from '../service/storm.ts';
import type { StormRound } from '../storm.ts';
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
      for (let played = 1, isClean = true; isClean && next < end && !signal.aborted; played += 1) {
        const round = next++;
        const isLast = played === ROUNDS_OF_A_STACK || next >= end;
        const report = await play(lane, seed, round, isLast);
        reports.push(report);
        onRound(report);
        isClean = report.findings.length === 0 && !isLast;
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
  const deployed = await rig.cli('deploy', rig.spec('storm.yaml', writeSpec(outside)), '--name', DEPLOYMENT);
  if (deployed.code !== 0) throw new Error(`deploy ended with ${deployed.code}: ${deployed.stderr}`);
  const firstFiredMs = await awaitSchedule(service);
  return {
    rig,
    service,
    outside,
    earlier: { deliveries: new Set(), runs: new Set(), firedUntilMs, firstFiredMs },
  };
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

async function play(lane: Lane, seed: number, round: number, isLast: boolean): Promise<StormRound> {
  const { rig } = lane;
  const startedAt = Date.now();
  const ofRound = roundSeed(seed, round);
  const phases = new Phases();
  let blows: readonly string[] = [];
  const findings: string[] = [];
  try {
    const report = await playTriggerRound(lane, phases, round, randomOf(ofRound));
    blows = report.strikes;
    findings.push(...report.findings);
    if (isLast) await phases.of('down', async () => await rig.assertNothingLeft());
  } catch (error) {
    findings.push(error instanceof Error ? (error.stack ?? error.message) : String(error));
  }
  return {
    round,
    seed: ofRound,
    durationMs: Date.now() - startedAt,
    phasesMs: phases.spentMs(),
    blows,
    findings,
    keptIn: findings.length === 0 ? null : keepState(rig),
  };
}
