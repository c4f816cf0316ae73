/**
 * `npm run bench vmm [PART]… [--rounds N] [--json FILE] [--no-write]`: figures of `voidbox-vmm` on KVM, of this host or of the lab.
 * Prints them with their goals, and writes docs/reference/benchmarks-vmm.md: the whole page, or the sections of the parts named.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type CpioEntry, writeCpio } from '../../guest/image/cpio.ts';
import type { KernelModule } from '../../guest/image/initramfs.ts';
import { readEnvironment } from '../../setup/environment.ts';
import { makeContext, pieceSource } from '../../setup/pieces/context.ts';
import { readKernelModules, readLabModules } from '../../setup/pieces/debian-kernel.ts';
import type { HostPieces } from '../../setup/pieces/host-pieces.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { resolveHostPieces, SetupError } from '../../setup/resolve.ts';
import { findPlace, type KvmPlace } from '../../test/kvm-lab/start-on-kvm.ts';
import { makeBenchCommand } from '../command/bench-command.ts';
import { type ArmResult, formatLoad } from '../measure.ts';
import { formatLoads, renderFigures, replaceFigures } from '../report.ts';
import { makeFigures } from './figures.ts';
import { buildMachinePrograms } from './machine-programs.ts';
import { type PartTask, takePart } from './start.ts';
import type { BenchTask } from './task.ts';

const PAGE = 'benchmarks-vmm.md';
/** QEMU needs up to a minute to boot a guest in the lab of a busy machine. */
const BOOT_TIMEOUT_MS = 90_000;
const PARTS: readonly BenchTask['part'][] = ['start', 'first-command', 'warm', 'snapshots', 'two-cpus'];

const print = (line: string): void => void process.stdout.write(`${line}\n`);

async function main(): Promise<void> {
  const command = makeBenchCommand(
    'bench vmm',
    `Takes the figures of voidbox-vmm on KVM, and writes docs/reference/${PAGE}: the whole page, or the sections of the parts named.`,
    PARTS,
  ).option('--json <FILE>', 'writes the figures to this file, too');
  command.parse();
  const { rounds, write, json } = command.opts<{ rounds: number; write: boolean; json?: string }>();
  const named = command.processedArgs[0] as string[];
  const parts = PARTS.filter((part) => named.length === 0 || named.includes(part));
  const prepared = await prepare(rounds);
  const { place, task, initramfs } = prepared;
  const loads = [`At the start: ${formatLoad()}`];
  const results: [string, ArmResult<string>][] = [];
  for (const part of parts) {
    print(`\n${part} (load average ${formatLoad()})`);
    results.push(...(await takePart(place, { ...task, part }, initramfs, print)));
    loads.push(`After ${part}: ${formatLoad()}`);
  }
  const figures = makeFigures(new Map(results));
  const facts = [describeLane(prepared, rounds), formatLoads(loads)];
  const takenOn = new Date().toISOString().slice(0, 10);
  const page = renderFigures({
    title: 'Figures of the native VMM',
    command: 'npm run bench vmm',
    facts,
    figures,
    takenOn,
  });
  print(`\n${page}`);
  if (json !== undefined) writeFileSync(json, `${JSON.stringify({ takenOn, facts, figures }, null, 2)}\n`);
  if (!write) return;
  const file = join(findPackageRoot(), 'docs', 'reference', PAGE);
  const isWhole = parts.length === PARTS.length && task.own !== null;
  const text = isWhole ? page : replaceFigures(readFileSync(file, 'utf8'), figures, { rounds, loads }, takenOn);
  writeFileSync(file, text);
}

interface Prepared {
  readonly place: KvmPlace;
  readonly pieces: HostPieces;
  readonly own: HostPieces | null;
  readonly task: Omit<PartTask, 'part'>;
  readonly initramfs: Buffer;
}

async function prepare(rounds: number): Promise<Prepared> {
  const env = readEnvironment();
  const pieces = await resolveHostPieces(env, { install: true, kernelKind: 'debian', onProgress: print });
  const own = await findOwn();
  if (own === null) print("Voidbox's own kernel is not built (`npm run kernel`): its figures are not taken");
  const context = await makeContext(env, print);
  // On a host without KVM, set-up itself gets no VMM.
  const need = pieceSource(context, true);
  const [vmm, busybox] = [await need('vmm'), await need('busybox')];
  const { init, ...programs } = await buildMachinePrograms(context);
  const modules = readLabModules(dirname(pieces.kernel.path));
  const kernel = chooseKernel(pieces, own);
  const initramfs = makeInitramfs(
    readFileSync(init),
    kernel.kind === 'debian' ? readKernelModules(dirname(kernel.path)) : [],
  );
  return {
    place: await findPlace(pieces, { busybox: busybox.path, modules }),
    pieces,
    own,
    task: { rounds, pieces, own, vmm: vmm.path, machine: { ...programs, kernel }, bootTimeoutMs: BOOT_TIMEOUT_MS },
    initramfs,
  };
}

/** Debian's kernel has vsock as modules. */
function makeInitramfs(init: Buffer, modules: readonly KernelModule[]): Buffer {
  const makeFile = (path: string, content: Uint8Array): CpioEntry => ({ kind: 'file', path, mode: 0o755, content });
  return writeCpio([
    { kind: 'folder', path: 'dev', mode: 0o755 },
    { kind: 'folder', path: 'modules', mode: 0o755 },
    makeFile('init', init),
    ...modules.map(({ content }, index) => makeFile(`modules/${String(index).padStart(3, '0')}`, content)),
  ]);
}

async function findOwn(): Promise<HostPieces | null> {
  try {
    return await resolveHostPieces(readEnvironment(), { install: false, kernelKind: 'voidbox' });
  } catch (error) {
    if (error instanceof SetupError) return null;
    throw error;
  }
}

/** Voidbox's own kernel if it is built, else Debian's. */
function chooseKernel(pieces: HostPieces, own: HostPieces | null): PartTask['machine']['kernel'] {
  const { kind, uncompressedPath } = (own ?? pieces).kernel;
  if (uncompressedPath === undefined)
    throw new Error(`the kernel ${(own ?? pieces).kernel.path} has no unpacked file next to it: unset VOIDBOX_KERNEL`);
  return { kind, path: uncompressedPath };
}

function describeLane({ place, pieces, own }: Prepared, rounds: number): string {
  const where =
    place.kind === 'host'
      ? 'KVM of this host'
      : 'KVM of the lab, a host that QEMU emulates with one CPU (two for the 8 VMs that boot): compare only times of this page';
  const kernels = [pieces, ...(own === null ? [] : [own])].map(({ kernel }) => `${kernel.kind} ${kernel.version}`);
  return `Lane: ${where}; kernels ${kernels.join(' and ')}; ${rounds} rounds.`;
}

await main();
