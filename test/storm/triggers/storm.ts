/** Rounds against triggers, some side by side, each lane on a stack of its own with one deployment. */
import { Rig } from '../../e2e/rig.ts';
import { keepState } from '../keep-state.ts';
import { Phases } from '../phases.ts';
import { randomOf, roundSeed } from '../random.ts';
import type { Service } from '../service/client.ts';
import { type ServiceStormOptions, startService } from '../service/storm.ts';
import type { StormRound } from '../storm.ts';
import { playTriggerRound } from './round.ts';
import { DEPLOYMENT, SECRET, SECRET_NAME, SPEC } from './sender.ts';

/** More deliveries would not be on one page. */
const ROUNDS_OF_A_STACK = 5;

/** Plays all rounds, and a new stack after each one with a finding. */
export async function stormTriggers(options: ServiceStormOptions): Promise<readonly StormRound[]> {
  const { seed, rounds, firstRound, lanes, onRound, signal } = options;
  const reports: StormRound[] = [];
  const end = firstRound + rounds;
  let next = firstRound;
  const playLane = async (): Promise<void> => {
    while (next < end && !signal.aborted) {
      await using rig = new Rig();
      const lane = { rig, service: await startService(rig), earlier: new Set<string>() };
      await deploy(rig);
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

/** @throws Error if the spec cannot be deployed */
export async function deploy(rig: Rig): Promise<void> {
  const setting = rig.startFed('secret', 'set', SECRET_NAME);
  setting.child.stdin!.end(SECRET);
  const set = await setting.done;
  if (set.code !== 0) throw new Error(`secret set ended with ${set.code}: ${set.stderr}`);
  const deployed = await rig.cli('deploy', rig.spec('storm.yaml', SPEC), '--name', DEPLOYMENT);
  if (deployed.code !== 0) throw new Error(`deploy ended with ${deployed.code}: ${deployed.stderr}`);
}

interface Lane {
  readonly rig: Rig;
  readonly service: Service;
  readonly earlier: Set<string>;
}

async function play(lane: Lane, seed: number, round: number, isLast: boolean): Promise<StormRound> {
  const { rig } = lane;
  const startedAt = Date.now();
  const ofRound = roundSeed(seed, round);
  const phases = new Phases();
  let blows: readonly string[] = [];
  const findings: string[] = [];
  try {
    const report = await playTriggerRound({ ...lane, phases }, round, randomOf(ofRound));
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
