/** Rounds against the HTTP API, some side by side, each lane on a stack of its own that listens over TCP. */
import { freePort } from '../../../workers/embedded/ports.ts';
import { Rig } from '../../e2e/rig.ts';
import { Phases } from '../phases.ts';
import { randomOf, roundSeed } from '../random.ts';
import { keepState } from '../keep-state.ts';
import type { StormRound } from '../storm.ts';
import type { Service } from './client.ts';
import { playServiceRound } from './round.ts';

export interface ServiceStormOptions {
  readonly seed: number;
  readonly rounds: number;
  readonly firstRound: number;
  readonly lanes: number;
  readonly onRound: (report: StormRound) => void;
  /** Stops after the running rounds. */
  readonly signal: AbortSignal;
}

/** Plays all rounds, and a new stack after each one with a finding. */
export async function stormService(options: ServiceStormOptions): Promise<readonly StormRound[]> {
  const { seed, rounds, firstRound, lanes, onRound, signal } = options;
  const reports: StormRound[] = [];
  const end = firstRound + rounds;
  let next = firstRound;
  const playLane = async (): Promise<void> => {
    while (next < end && !signal.aborted) {
      await using rig = new Rig();
      const service = await startService(rig);
      let isClean = true;
      while (isClean && next < end && !signal.aborted) {
        const report = await play(rig, service, seed, next++, next >= end);
        reports.push(report);
        onRound(report);
        isClean = report.findings.length === 0;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(lanes, rounds) }, playLane));
  return reports.toSorted((a, b) => a.round - b.round);
}

/**
 * @param options  further ones of `up`
 * @throws Error if the stack does not listen
 */
export async function startService(rig: Rig, options: readonly string[] = []): Promise<Service> {
  const port = await freePort();
  const up = await rig.cli('up', '--listen', `127.0.0.1:${port}`, ...options);
  if (up.code !== 0) throw new Error(`up ended with ${up.code}: ${up.stderr}`);
  const created = await rig.cli('token', 'create', 'storm', '--scope', 'run');
  if (created.code !== 0) throw new Error(`token create ended with ${created.code}: ${created.stderr}`);
  return { stateDir: rig.stateDir, port, token: created.stdout.trim() };
}

async function play(rig: Rig, service: Service, seed: number, round: number, isLast: boolean): Promise<StormRound> {
  const startedAt = Date.now();
  const ofRound = roundSeed(seed, round);
  const phases = new Phases();
  let blows: readonly string[] = [];
  let connections = 0;
  const findings: string[] = [];
  try {
    const report = await playServiceRound({ rig, service, phases }, round, randomOf(ofRound));
    blows = report.strikes;
    connections = report.connections;
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
    connections,
    keptIn: findings.length === 0 ? null : keepState(rig),
  };
}
