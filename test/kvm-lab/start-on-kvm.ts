/** Chooses where rows on KVM run, on this host or in the lab, and starts their program there. */
import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { rolldown } from 'rolldown';
import { readHostFacts, type HostFacts } from '../../native/index.ts';
import type { QemuPieces } from '../../sandbox/micro-vm/qemu/qemu.ts';
import { LAB_FOLDER, ROWS_PORT } from './first-root.ts';
import { startLab, type LabPieces } from './lab.ts';
import type { KvmTask } from './program/task.ts';
import type { Attempt, StartAttempt } from './run-rows.ts';

const MAIN = join(import.meta.dirname, 'program', 'main.ts');

export type KvmPlace = { readonly kind: 'host' } | { readonly kind: 'lab'; readonly pieces: LabPieces };

/** Everything from which the lab is made. */
export interface LabSources {
  readonly busybox: string;
  readonly modules: LabPieces['modules'];
}

/**
 * Chooses this host if its CPU has KVM, else the lab.
 * @throws Error with the reason and the remedy if the host can do neither
 */
export function choosePlace(
  { kvm }: Pick<HostFacts, 'kvm'>,
  arch: string,
  pieces: QemuPieces,
  { busybox, modules }: LabSources,
): KvmPlace {
  if (kvm === 'hardware') return { kind: 'host' };
  const refuse = (why: string, remedy: string): Error =>
    new Error(`No VM on KVM runs here: the KVM of this host is "${kvm}", and ${why}. ${remedy}`);
  if (arch !== 'x64')
    throw refuse(`the lab emulates an x86-64 CPU, while Node runs on ${arch}`, 'Run this on a host with /dev/kvm.');
  if (modules.length === 0)
    throw refuse(
      `${pieces.kernel.path} has no modules of KVM beside it`,
      'Unset VOIDBOX_KERNEL and VOIDBOX_GUEST_KERNEL, so that the lab gets the kernel of Debian.',
    );
  const kernel = pieces.kernel.uncompressedPath ?? pieces.kernel.path;
  return { kind: 'lab', pieces: { qemu: pieces.qemu, keeper: pieces.keeper, kernel, busybox, modules } };
}

export async function findPlace(pieces: QemuPieces, sources: LabSources): Promise<KvmPlace> {
  return choosePlace(await readHostFacts(pieces.keeper), process.arch, pieces, sources);
}

/** Returns the start of the program for a task whose rows follow. */
export function startOnKvm(place: KvmPlace, task: Omit<KvmTask, 'rows' | 'hasPulse'>): StartAttempt {
  let program: Promise<string> | null = null;
  return async (rows) => {
    program ??= bundleProgram();
    const hasPulse = place.kind === 'lab';
    const text = JSON.stringify({ ...task, hasPulse, rows } satisfies KvmTask);
    return place.kind === 'lab'
      ? await startInLab(place.pieces, await program, text)
      : await startHere(await program, text);
  };
}

/** One file starts at once, while hundreds of modules would each cost the lab a read over 9p. */
async function bundleProgram(): Promise<string> {
  const build = await rolldown({ input: MAIN, platform: 'node', logLevel: 'silent' });
  try {
    const { output } = await build.generate({ format: 'esm', codeSplitting: false });
    return output[0].code;
  } finally {
    await build.close();
  }
}

function startInLab(pieces: LabPieces, program: string, task: string): Promise<Attempt> {
  const inLab = (name: string): string => join(LAB_FOLDER, name);
  return startLab(pieces, {
    files: { 'program.mjs': program, 'task.json': task },
    command: [process.execPath, inLab('program.mjs'), inLab('task.json'), ROWS_PORT],
    variables: { PATH: pathWith(process.execPath), HOME: LAB_FOLDER, TMPDIR: inLab('tmp'), LC_ALL: 'C.UTF-8' },
  });
}

function pathWith(node: string): string {
  return `${dirname(node)}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`;
}

async function startHere(program: string, task: string): Promise<Attempt> {
  const folder = await mkdtemp(join(tmpdir(), 'voidbox-on-kvm-'));
  await writeFile(join(folder, 'program.mjs'), program);
  await writeFile(join(folder, 'task.json'), task);
  const child = spawn(process.execPath, [join(folder, 'program.mjs'), join(folder, 'task.json'), '/dev/fd/3'], {
    stdio: ['ignore', 'inherit', 'inherit', 'pipe'],
  });
  const closed = new Promise<void>((resolve) => {
    child.once('close', () => resolve());
    child.once('error', () => resolve());
  });
  const end = async (): Promise<void> => {
    child.kill('SIGKILL');
    await closed;
    await rm(folder, { recursive: true, force: true });
  };
  return {
    lines: createInterface({ input: child.stdio[3] as NodeJS.ReadableStream }),
    describe: () => `The program ended with ${child.exitCode ?? child.signalCode}.`,
    end,
  };
}
