/** Measures VMs that start from a snapshot against VMs that boot. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { LaunchSpec } from '../../activities/ports/sandbox.ts';
import { createQemuBackend, type QemuBackendOptions } from '../../sandbox/micro-vm/qemu/backend.ts';
import { readHostMemory } from '../../setup/machine/host-memory.ts';
import { resolveOptionalPieces, SetupError } from '../../setup/resolve.ts';
import { type Arm, type ArmResult, interleave, measurePairedRatio, type Spread, spread } from '../measure.ts';
import type { Figure, FigureRow, Goal } from '../report.ts';
import { startServer, TUNED_FLAGS } from '../servers.ts';
import { createNpmStartArm, createRunArm, makeCommandsSpec } from '../snapshots/runs.ts';
import {
  createStartArm,
  makeSnapshot,
  measureCopies,
  readSizesMib,
  type StartMeasure,
  type VmHost,
} from '../snapshots/snapshots.ts';
import { type Bench, startOurWorker } from './bench.ts';

const LARGE_MIB = 2_048;
const DEV = { image: { kind: 'dev' }, memoryMib: 1_024 } as const;
const COPIES = 10;
const COMMANDS = 10;
const MAX_MIB = 4_096;

export async function takeSnapshotFigure(bench: Bench): Promise<Figure> {
  const parts = [
    await measureStarts(bench),
    await measureDevStarts(bench),
    await measureCommands(bench),
    await measureNpmStarts(bench),
  ];
  const parallel = await measureCopiesAndSizes(bench);
  return {
    title: '(q) VMs that start from a snapshot',
    method: `Time from the call to the exit of the first command, and the CPU time until then of the keeper and all processes below it, with Debian's kernel and one vCPU. A cold VM boots. The maker boots too and saves its guest, in an empty folder of snapshots. The base has 256 MiB, the dev image 1,024. Memory is the proportional memory (Pss) of keeper and VMM after the first command: the first copy while it runs without others, and what each further one of ${COPIES} adds. Commands are runs of ${COMMANDS} commands in a row, each in a VM of its own. \`npm start\` counts to its end, with a stack that does not run.`,
    rows: [...parts.flatMap(({ rows }) => rows), ...parallel.rows],
    goals: [...parts.flatMap(({ goals }) => goals), ...parallel.goals],
  };
}

type Part = Pick<Figure, 'rows' | 'goals'>;

/** Returns the arms of cold and restored starts, and of the VM that makes the snapshot. */
async function createStartArms(
  bench: Bench,
  prefix: string,
  change: Partial<LaunchSpec>,
): Promise<readonly [Arm<StartMeasure>, Arm<StartMeasure>, Arm<StartMeasure>]> {
  const dir = findSnapshotsDir(bench);
  const [cold, warm] = [createHost(bench, null), createHost(bench, dir)];
  await makeSnapshot(warm, dir, change);
  let round = 0;
  const findFolder = (): string => join(bench.workDir, `${prefix.replaceAll(' ', '-')}-${round}`);
  return [
    createStartArm({ name: `${prefix}, restored`, findHost: () => warm, start: 'snapshot', change }),
    createStartArm({ name: `${prefix}, cold`, findHost: () => cold, start: 'cold', change }),
    createStartArm({
      name: `${prefix}, maker`,
      findHost: () => {
        round += 1;
        return createHost(bench, findFolder());
      },
      start: 'cold',
      change,
      // Its keeper may still write the snapshot.
      clear: async () => rmSync(findFolder(), { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }),
    }),
  ];
}

async function measureStarts(bench: Bench): Promise<Part> {
  const results = await interleave(await createStartArms(bench, 'base', {}), bench.rounds, bench.say);
  const [restored, cold, maker] = results as readonly ArmResult<StartMeasure>[];
  return {
    rows: results.flatMap(formatStart),
    goals: [
      checkRatio('base, restored against cold: time', restored!, cold!, 'toFirstExecMs', 0.15),
      checkRatio('base, restored against cold: CPU', restored!, cold!, 'cpuMs', 0.15),
      checkRatio('base, the VM that makes the snapshot against cold: time', maker!, cold!, 'toFirstExecMs', 1.15),
      checkRatio('base, the VM that makes the snapshot against cold: CPU', maker!, cold!, 'cpuMs', 1.15),
    ],
  };
}

/** Only if the image is in the cache already: figure (n) makes it. */
async function measureDevStarts(bench: Bench): Promise<Part> {
  try {
    await resolveOptionalPieces(bench.env, ['dev'], { install: false });
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    bench.say('  the dev image is not made: `npm run bench dev` makes it');
    return { rows: [], goals: [] };
  }
  const results = await interleave(
    (await createStartArms(bench, 'dev image', DEV)).slice(0, 2),
    bench.rounds,
    bench.say,
  );
  const [restored, cold] = results;
  return {
    rows: results.flatMap(formatStart),
    goals: [
      checkRatio('dev image, restored against cold: time', restored!, cold!, 'toFirstExecMs', 0.2),
      checkRatio('dev image, restored against cold: CPU', restored!, cold!, 'cpuMs', 0.2),
    ],
  };
}

/** The memory of copies, and the disk of snapshots. */
async function measureCopiesAndSizes(bench: Bench): Promise<Part> {
  const dir = findSnapshotsDir(bench);
  const host = createHost(bench, dir);
  const { firstMib, furtherMib } = await measureCopies(host, COPIES);
  await makeSnapshot(host, dir, { memoryMib: LARGE_MIB });
  const sizes = readSizesMib(dir);
  const [small, large] = [sizes.get(256)!, sizes.get(LARGE_MIB)!];
  return {
    rows: [
      formatRow('memory of the first copy', spread([firstMib]), 'MiB'),
      formatRow('memory of each further copy', spread([furtherMib]), 'MiB'),
      formatRow('a snapshot on the disk, guest of 256 MiB', spread([small]), 'MiB'),
      formatRow(`a snapshot on the disk, guest of ${LARGE_MIB} MiB`, spread([large]), 'MiB'),
    ],
    goals: [
      checkAtMost('memory of a further copy against the first', furtherMib / firstMib, 0.6),
      checkAtMost('a snapshot on the disk, guest of 256 MiB, in MiB', small, 80),
      checkAtMost(`guest of ${LARGE_MIB} MiB against 256 MiB, on the disk`, large / small, 1.3),
    ],
  };
}

async function measureCommands(bench: Bench): Promise<Part> {
  const withVariable = (value: string): Bench => ({
    ...bench,
    env: { ...bench.env, variables: withSnapshots(bench, value) },
  });
  const processes: AsyncDisposable[] = [];
  try {
    const arms: Arm<'ms'>[] = [];
    for (const value of ['on', 'off']) {
      const database = join(bench.workDir, `commands-${value}.db`);
      const server = await startServer(bench.pieces.temporalCli, database, TUNED_FLAGS);
      processes.unshift(server);
      processes.unshift(await startOurWorker(withVariable(value), server.address, `commands-${value}`));
      const arm = await createRunArm(
        `${COMMANDS} commands, snapshots ${value}`,
        server.address,
        makeCommandsSpec(COMMANDS),
      );
      // The first run makes the snapshot, and compiles the worker's code.
      await arm.round();
      arms.push(arm);
    }
    const [on, off] = await interleave(arms, bench.rounds, bench.say);
    return {
      rows: [on!, off!].map((result) => formatRow(result.name, spread(result.rounds.map(({ ms }) => ms / 1_000)), 's')),
      goals: [checkRatio(`${COMMANDS} commands, each in a VM of its own, against \`off\``, on!, off!, 'ms', 0.4)],
    };
  } finally {
    for (const process of processes) await process[Symbol.asyncDispose]();
  }
}

async function measureNpmStarts(bench: Bench): Promise<Part> {
  const arms = ['on', 'off'].map((value) =>
    createNpmStartArm(`npm start, snapshots ${value}`, bench.root, {
      ...withSnapshots(bench, value),
      VOIDBOX_STATE_DIR: join(bench.workDir, `start-${value}`),
      TMPDIR: bench.workDir,
    }),
  );
  for (const arm of arms) await arm.round();
  const [on, off] = await interleave(arms, bench.rounds, bench.say);
  return {
    rows: [on!, off!].map((result) => formatRow(result.name, spread(result.rounds.map(({ seconds }) => seconds)), 's')),
    goals: [checkRatio('`npm start`, whole, against `off`', on!, off!, 'seconds', 0.5)],
  };
}

function withSnapshots({ env }: Bench, snapshots: string): Bench['env']['variables'] {
  return { ...env.variables, VOIDBOX_SNAPSHOTS: snapshots };
}

export function findSnapshotsDir({ workDir }: Bench): string {
  return join(workDir, 'snapshots');
}

/** @param snapshots  the folder of snapshots; null: each VM boots */
export function createHost(bench: Bench, snapshots: string | null): VmHost {
  const options = buildHostOptions(bench, snapshots);
  return { backend: createQemuBackend(options), vmsDir: options.vmsDir };
}

export function buildHostOptions({ workDir, pieces, env }: Bench, snapshots: string | null): QemuBackendOptions {
  return {
    vmsDir: join(workDir, 'vms'),
    keeper: pieces.keeper,
    pieces: () => Promise.resolve(pieces),
    extra: async (name) => (await resolveOptionalPieces(env, [name], { install: false })).get(name)!,
    hostMemoryMib: () => readHostMemory().totalMib,
    ...(snapshots === null ? {} : { snapshots: { dir: snapshots, maxMib: MAX_MIB } }),
  };
}

function formatStart({ name, rounds }: ArmResult<StartMeasure>): readonly FigureRow[] {
  return [
    formatRow(`${name}: to the first command's exit`, spread(rounds.map(({ toFirstExecMs }) => toFirstExecMs)), 'ms'),
    formatRow(`${name}: CPU until then`, spread(rounds.map(({ cpuMs }) => cpuMs)), 'ms'),
  ];
}

function formatRow(what: string, value: Spread, unit: string): FigureRow {
  return { what, value, unit };
}

function checkRatio<T extends string>(
  what: string,
  result: ArmResult<T>,
  base: ArmResult<T>,
  measure: NoInfer<T>,
  most: number,
): Goal {
  return checkAtMost(`${what}, paired`, measurePairedRatio(result, base, measure).median, most);
}

function checkAtMost(what: string, value: number, most: number): Goal {
  return { what, value, goal: `≤ ${most}`, met: value <= most };
}
