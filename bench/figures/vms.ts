/** Measures the cost of a VM: its boot, a command in it, files in and out. */
import { join } from 'node:path';
import type { SandboxBackend } from '../../activities/ports/sandbox.ts';
import { createQemuBackend } from '../../sandbox/micro-vm/qemu/backend.ts';
import { readHostMemory } from '../../setup/machine/host-memory.ts';
import type { HostPieces } from '../../setup/pieces/host-pieces.ts';
import { interleave, spread } from '../measure.ts';
import type { Figure } from '../report.ts';
import { coldBootArm, execArm, fileArm, warmVm } from '../vm.ts';
import type { Bench } from './bench.ts';

export async function bootFigure(bench: Bench): Promise<Figure> {
  const results = await interleave(
    lanes(bench).map(({ name, backend }) => coldBootArm(name, backend)),
    bench.rounds,
    bench.say,
  );
  return {
    title: '(b) Cold boot to the first command',
    method:
      "Time from the call to the exit of the first command, with 256 MiB and one vCPU. Voidbox's share is this time without the time from the start of the VMM to the agent's hello.",
    rows: results.flatMap((result) => [
      {
        what: `${result.name}: to the first command's exit`,
        value: spread(result.rounds.map((round) => round.toFirstExecMs)),
        unit: 'ms',
      },
      {
        what: `${result.name}: VMM, kernel and init, to hello`,
        value: spread(result.rounds.map((round) => round.kernelAndInitMs)),
        unit: 'ms',
      },
      {
        what: `${result.name}: Voidbox's share`,
        value: spread(result.rounds.map((round) => round.oursMs)),
        unit: 'ms',
      },
    ]),
    goals: [],
  };
}

export async function execFigure(bench: Bench): Promise<Figure> {
  const rows = [];
  for (const { name, backend } of lanes(bench)) {
    await using warm = await warmVm(backend);
    const [result] = await interleave([execArm(name, warm.vm)], bench.rounds, bench.say);
    rows.push({ what: name, value: spread(result!.rounds.map((round) => round.roundTripMs)), unit: 'ms' });
  }
  return {
    title: '(c) A command on a warm VM',
    method: 'Time from start to exit of `true`, with a durable record of both; the mean of 20 consecutive commands.',
    rows,
    goals: [],
  };
}

export async function fileFigure(bench: Bench): Promise<Figure> {
  const rows = [];
  const goals = [];
  for (const { name, backend } of lanes(bench)) {
    await using warm = await warmVm(backend);
    const [result] = await interleave([fileArm(name, warm.vm)], bench.rounds, bench.say);
    const write = spread(result!.rounds.map((round) => round.writeMbPerS));
    const read = spread(result!.rounds.map((round) => round.readMbPerS));
    rows.push(
      { what: `${name}: write`, value: write, unit: 'MB/s' },
      { what: `${name}: read`, value: read, unit: 'MB/s' },
    );
    goals.push(
      { what: `${name}: write`, value: write.median, goal: '≥ 100 MB/s', met: write.median >= 100 },
      { what: `${name}: read`, value: read.median, goal: '≥ 100 MB/s', met: read.median >= 100 },
    );
  }
  return {
    title: '(d) Files in and out',
    method:
      'One file of 64 MiB through the file operations of the sandbox, which set owner and mode; the number of bytes is checked.',
    rows,
    goals,
  };
}

function lanes(bench: Bench): readonly { readonly name: string; readonly backend: SandboxBackend }[] {
  const own = bench.ownKernel;
  return [
    { name: `Debian ${bench.pieces.kernel.version}`, backend: backendOf(bench, bench.pieces) },
    ...(own === null ? [] : [{ name: `ours ${own.kernel.version}`, backend: backendOf(bench, own) }]),
  ];
}

function backendOf(bench: Bench, pieces: HostPieces): SandboxBackend {
  return createQemuBackend({
    vmsDir: join(bench.workDir, 'vms'),
    keeper: pieces.keeper,
    pieces: () => Promise.resolve(pieces),
    extra: () => Promise.reject(new Error('no VM of these figures has extras')),
    hostMemoryMib: () => readHostMemory().totalMib,
  });
}
