/** Rounds of a storm, some side by side, each lane with a stack of its own that lives on over its rounds. */
import { Rig } from '../e2e/rig.ts';
import { OwnCache } from '../rig/vms/own-cache.ts';
import { SmallDisk } from '../rig/vms/small-disk.ts';
import { keepState } from './keep-state.ts';
import { type Phase, Phases } from './phases.ts';
import { randomOf, roundSeed } from './random.ts';
import { playRound } from './round.ts';

export interface StormOptions {
  readonly seed: number;
  readonly rounds: number;
  /** The first round's number: with `rounds` 1 it plays one round of a storm again. */
  readonly firstRound: number;
  readonly lanes: number;
  /** Each state folder is on a small disk, which one strike of each round fills. This needs root. */
  readonly disk: boolean;
  readonly onRound: (report: StormRound) => void;
  /** Stops after the running rounds. */
  readonly signal: AbortSignal;
}

export interface StormRound {
  readonly round: number;
  readonly seed: number;
  readonly durationMs: number;
  readonly phasesMs: Readonly<Partial<Record<Phase, number>>>;
  readonly blows: readonly string[];
  readonly findings: readonly string[];
  /** Connections of all readers of a round against the HTTP API; absent: no readers. */
  readonly connections?: number;
  /** A copy of the state folder after the round; null: there are no findings. */
  readonly keptIn: string | null;
}

/** For two runs at once, and for the leftovers of earlier rounds. */
const DISK_MIB = 256;
const ROUNDS_ON_A_DISK = 4;
/** Stories have up to four kinds of VMs, and two snapshots fit: keepers evict snapshots under the blows. */
const SNAPSHOTS_MAX_MIB = '128';

/** Plays all rounds, whatever they find. */
export async function storm(options: StormOptions): Promise<readonly StormRound[]> {
  const reports: StormRound[] = [];
  let next = options.firstRound;
  const end = options.firstRound + options.rounds;
  const lane = async (): Promise<void> => {
    while (next < end && !options.signal.aborted) {
      using cache = new OwnCache();
      await using rig = new Rig({ ...cache.variables, VOIDBOX_SNAPSHOTS_MAX_MB: SNAPSHOTS_MAX_MIB });
      using disk = options.disk ? new SmallDisk(rig.stateDir, DISK_MIB) : null;
      let played = 0;
      // Errors of the last check belong to the last round.
      while (next < end && !options.signal.aborted) {
        const report = await play(rig, disk, cache.snapshots, options.seed, next++, next >= end);
        reports.push(report);
        options.onRound(report);
        // The next round must not count files and processes that this round left.
        if (report.findings.length > 0 || (disk !== null && ++played === ROUNDS_ON_A_DISK)) break;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(options.lanes, options.rounds) }, lane));
  return reports.toSorted((a, b) => a.round - b.round);
}

async function play(
  rig: Rig,
  disk: SmallDisk | null,
  snapshots: string,
  seed: number,
  round: number,
  isLast: boolean,
): Promise<StormRound> {
  const startedAt = Date.now();
  const ofRound = roundSeed(seed, round);
  const phases = new Phases();
  let blows: readonly string[] = [];
  const findings: string[] = [];
  try {
    const report = await playRound({ rig, disk, snapshots, phases }, `r${round}`, randomOf(ofRound));
    blows = report.blows;
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
