/**
 * `npm run bench [figure …] [--rounds N] [--items N] [--no-write]`: takes the figures named (all by default), prints them and writes
 * docs/reference/benchmarks.md: the whole page when all were taken, otherwise their sections of it.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PLAN_LIMITS } from '../domain/plan/plan.ts';
import { readEnvironment } from '../setup/environment.ts';
import type { HostPieces } from '../setup/pieces/host-pieces.ts';
import { findPackageRoot } from '../setup/package-root.ts';
import { resolveHostPieces, SetupError } from '../setup/resolve.ts';
import { makeBenchCommand, makeCountReader } from './command/bench-command.ts';
import type { Bench } from './figures/bench.ts';
import { agentFigure } from './figures/agents.ts';
import { devFigure } from './figures/dev.ts';
import { doorFigure } from './figures/door.ts';
import { cliFigure } from './figures/light-commands.ts';
import { firstPatchFigure } from './figures/first-patch.ts';
import { itemsFigure } from './figures/items.ts';
import { takeLaunchFigure } from './figures/launches.ts';
import { memoryFigure } from './figures/memory.ts';
import { measurePool } from './figures/pool.ts';
import { recoveryFigure } from './figures/recovery.ts';
import { takeSnapshotFigure } from './figures/snapshots.ts';
import { soakFigure } from './figures/soak.ts';
import { stageFigure, wideFigure } from './figures/stages.ts';
import { measureCheckpoints } from './figures/checkpoints.ts';
import { transitionFigure } from './figures/transitions.ts';
import { validationFigure } from './figures/validation.ts';
import { bootFigure, execFigure, fileFigure } from './figures/vms.ts';
import { workspaceFigure } from './figures/workspaces.ts';
import { formatLoad } from './measure.ts';
import { type Figure, type Lane, renderFigure, renderReport, replaceFigures } from './report.ts';

const FIGURES: Readonly<Record<string, (bench: Bench) => Promise<Figure>>> = {
  stages: stageFigure,
  transitions: transitionFigure,
  wide: wideFigure,
  items: itemsFigure,
  boot: bootFigure,
  snapshots: takeSnapshotFigure,
  launches: takeLaunchFigure,
  exec: execFigure,
  files: fileFigure,
  door: doorFigure,
  dev: devFigure,
  workspaces: workspaceFigure,
  agents: agentFigure,
  patch: firstPatchFigure,
  memory: memoryFigure,
  cli: cliFigure,
  validation: validationFigure,
  recovery: recoveryFigure,
  soak: soakFigure,
  checkpoints: measureCheckpoints,
  pool: measurePool,
};

async function main(): Promise<void> {
  const command = makeBenchCommand(
    'bench',
    'Takes figures, prints them and writes docs/reference/benchmarks.md: the whole page if all were taken, otherwise their sections.\n`npm run bench vmm -- --help` has the figures of the native VMM.',
    Object.keys(FIGURES),
  ).option('--items <N>', 'items of the figure `items`', makeCountReader(PLAN_LIMITS.items), 5000);
  command.parse();
  const { rounds, items, write } = command.opts<{ rounds: number; items: number; write: boolean }>();
  const named = command.processedArgs[0] as string[];
  const names = named.length === 0 ? Object.keys(FIGURES) : named;
  const env = readEnvironment();
  const printLine = (line: string): void => void process.stdout.write(`${line}\n`);
  const pieces = await resolveHostPieces(env, { install: true, kernelKind: 'debian', onProgress: printLine });
  const ownKernel = await resolveHostPieces(env, { install: false, kernelKind: 'voidbox' }).catch((error: unknown) => {
    if (error instanceof SetupError) return null;
    throw error;
  });
  if (ownKernel === null)
    printLine("Voidbox's own kernel is not built (`npm run kernel`): VMs are measured only with the Debian kernel");
  const workDir = mkdtempSync(join(tmpdir(), 'voidbox-bench-'));
  const loads: string[] = [`At the start: ${formatLoad()}`];
  try {
    const figures: Figure[] = [];
    for (const name of names) {
      printLine(`\n${name} (load average ${formatLoad()})`);
      const bench = { env, pieces, ownKernel, root: findPackageRoot(), workDir, rounds, items, say: printLine };
      const figure = await FIGURES[name]!(bench);
      figures.push(figure);
      printLine(`\n${renderFigure(figure)}`);
      loads.push(`After ${name}: ${formatLoad()}`);
    }
    const lane = laneOf(pieces, ownKernel, rounds, loads);
    const takenOn = new Date().toISOString().slice(0, 10);
    const page = join(findPackageRoot(), 'docs', 'reference', 'benchmarks.md');
    printLine(`\n${renderReport(figures, lane, takenOn)}`);
    if (!write) return;
    const isWhole = names.length === Object.keys(FIGURES).length;
    writeFileSync(
      page,
      isWhole
        ? renderReport(figures, lane, takenOn)
        : replaceFigures(readFileSync(page, 'utf8'), figures, lane, takenOn),
    );
  } finally {
    rmSync(workDir, { recursive: true, force: true });
  }
}

function laneOf(pieces: HostPieces, ownKernel: HostPieces | null, rounds: number, loads: readonly string[]): Lane {
  const { kvm } = JSON.parse(execFileSync(pieces.keeper, ['host'], { encoding: 'utf8' })) as { kvm: string };
  const readFirstLine = (program: string): string =>
    execFileSync(program, ['--version'], { encoding: 'utf8' }).split('\n')[0]!.trim();
  return {
    accelerator: kvm === 'hardware' ? 'kvm' : `tcg (KVM of this host: ${kvm})`,
    kernels: [pieces, ...(ownKernel === null ? [] : [ownKernel])].map(
      ({ kernel }) => `${kernel.kind} ${kernel.version}`,
    ),
    qemu: readFirstLine(pieces.qemu),
    temporal: readFirstLine(pieces.temporalCli),
    rounds,
    loads,
  };
}

await main();
