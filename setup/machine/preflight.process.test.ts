import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makeContext } from '../pieces/context.ts';
import { readEnvironment, type Environment } from '../environment.ts';
import { inspectHost } from './inspect.ts';
import type { SetupContext } from '../pieces/piece.ts';
import { RUN_PIECES, STACK_PIECES } from '../pieces/pieces.ts';
import { checkBeforeGetting, roomForBytes } from './preflight.ts';
import { resolveHostPieces, resolveStackPieces, SetupError } from '../resolve.ts';

const MIB = 1_048_576;
const MACHINE = { availableBytes: () => 1e12, openFiles: () => 1_048_576 };
let folder: string;
let calls: string;

/** Installs a program that answers every call with a line, and records that it was run. */
function putProgram(name: string, answer: string): void {
  writeFileSync(join(folder, 'bin', name), `#!/bin/sh\necho ${name} "$@" >> ${calls}\necho '${answer}'\n`, {
    mode: 0o755,
  });
}

function environment(extra: Record<string, string> = {}): Environment {
  return readEnvironment({
    HOME: folder,
    PATH: join(folder, 'bin'),
    VOIDBOX_CACHE_DIR: join(folder, 'cache'),
    VOIDBOX_STATE_DIR: join(folder, 'state'),
    VOIDBOX_KERNEL_KIND: 'debian',
    ...extra,
  });
}

async function contextOf(env: Environment): Promise<SetupContext> {
  return { ...(await makeContext(env, undefined)), system: { distribution: 'debian', name: 'Debian' } };
}

async function failure(attempt: Promise<unknown>): Promise<SetupError> {
  const error = await attempt.then(
    () => null,
    (caught: unknown) => caught,
  );
  expect(error).toBeInstanceOf(SetupError);
  return error as SetupError;
}

/**
 * A machine with everything that set-up needs to get the pieces, and the programs of the distribution, but no pieces.
 */
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'voidbox-preflight-'));
  calls = join(folder, 'calls');
  writeFileSync(calls, '');
  mkdirSync(join(folder, 'bin'));
  for (const name of ['sh', 'flock', 'cat']) symlinkSync(`/usr/bin/${name}`, join(folder, 'bin', name));
  putProgram('qemu-system-x86_64', 'QEMU emulator version 7.2.22');
  putProgram('bwrap', 'bubblewrap 0.8.0');
  putProgram('mke2fs', 'mke2fs 1.47.0 (5-Feb-2023)');
  putProgram('cargo', 'cargo 1.90.0 (fake)');
  for (const name of ['cc', 'python3', 'apt-get', 'apt-cache', 'dpkg-deb']) putProgram(name, '');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe('set-up', () => {
  it.each([
    ['all pieces', resolveHostPieces],
    ['the pieces of the stack', resolveStackPieces],
  ])('set-up of %s names all that is missing at once, before the first download', async (_what, resolvePieces) => {
    for (const name of ['cargo', 'flock']) rmSync(join(folder, 'bin', name));
    writeFileSync(join(folder, 'cache'), 'a file');
    const { message, remedy } = await failure(resolvePieces(environment(), { install: true }));
    expect(message).toMatch(/^Set-up found 3 problems and has downloaded nothing\.\n- Rust 1\.85 or newer is needed/);
    expect(message).toContain('there is no cargo on PATH.\n  fix: Install Rust from https://rustup.rs and retry.\n');
    expect(message).toContain(`- The cache folder ${join(folder, 'cache')} cannot be written: `);
    expect(message).toContain(
      '  fix: Fix its permissions or its disk, or name another folder: export VOIDBOX_CACHE_DIR=…\n',
    );
    expect(message).toContain(
      '- There is no flock on PATH, and set-up locks the cache with it.\n  fix: Install util-linux.',
    );
    expect(remedy).toBe('Fix all of them and retry.');
    expect(readFileSync(calls, 'utf8')).not.toMatch(/^(?:python3|apt-|dpkg|cargo (?!--version))/m);
    expect(readdirSync(folder).sort()).toEqual(['bin', 'cache', 'calls']);
  });

  it('asks nothing of a machine on which everything is there, its cache included', async () => {
    for (const name of ['cargo', 'flock']) rmSync(join(folder, 'bin', name));
    putProgram('temporal', 'temporal version 1.9.1 (Server 1.32.0, UI 2.54.1)');
    for (const name of ['keeper', 'vmlinuz', 'initramfs']) writeFileSync(join(folder, name), name);
    const named = {
      VOIDBOX_VM: join(folder, 'keeper'),
      VOIDBOX_KERNEL: join(folder, 'vmlinuz'),
      VOIDBOX_INITRAMFS: join(folder, 'initramfs'),
      VOIDBOX_CACHE_DIR: '/proc/voidbox',
    };
    const pieces = await resolveHostPieces(environment(named), { install: true });
    expect(pieces.keeper).toBe(join(folder, 'keeper'));
  });
});

describe('before pieces are got', () => {
  it('nothing is in the way of a machine that has what getting them takes', async () => {
    await checkBeforeGetting(await contextOf(environment()), RUN_PIECES, MACHINE);
    expect(existsSync(join(folder, 'cache'))).toBe(false);
  });

  it('the disk of the cache has room for what is missing, and for the build of keeper and agent once', async () => {
    const context = await contextOf(environment());
    const neededBytes = roomForBytes(['temporal-cli', 'keeper', 'kernel', 'initramfs', 'agent', 'busybox']);
    expect(neededBytes).toBe((400 + 300 + 600 + 20 + 100) * MIB);
    const withRoom = (bytes: number): Promise<void> =>
      checkBeforeGetting(context, RUN_PIECES, { ...MACHINE, availableBytes: () => bytes });
    await withRoom(neededBytes);
    const { message, remedy } = await failure(withRoom(neededBytes - 1));
    expect(message).toBe(
      `Getting temporal-cli, keeper, kernel, initramfs, busybox, agent takes up to 1420 MiB, and the disk of the cache folder ${join(folder, 'cache')} has 1419 MiB free.`,
    );
    expect(remedy).toContain('export VOIDBOX_CACHE_DIR=');
  });

  it.each([
    ['a cargo that is too old', 'cargo 1.80.0 (fake)', 'is version 1.80.0'],
    ["rustup's cargo without a toolchain", 'rustup could not choose a version', '--version prints no version'],
  ])('%s is named', async (_what, answer, words) => {
    putProgram('cargo', answer);
    const { message, remedy } = await failure(
      checkBeforeGetting(await contextOf(environment()), STACK_PIECES, MACHINE),
    );
    expect(message).toContain(`${join(folder, 'bin', 'cargo')} ${words}`);
    expect(remedy).toContain('rustup update stable && rustup default stable');
  });

  it('a linker is there, unless cargo was told another', async () => {
    rmSync(join(folder, 'bin', 'cc'));
    const attempt = async (extra: Record<string, string>): Promise<void> =>
      checkBeforeGetting(await contextOf(environment(extra)), STACK_PIECES, MACHINE);
    expect((await failure(attempt({}))).message).toBe('Rust links with a C compiler, and there is no cc on PATH.');
    await attempt({ CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER: 'lld' });
    mkdirSync(join(folder, '.cargo'));
    writeFileSync(join(folder, '.cargo', 'config.toml'), '[target.x86_64-unknown-linux-musl]\nlinker = "lld"\n');
    await attempt({});
  });

  it('packages that cannot be installed from here, a kernel without apt, and too few open files are all named', async () => {
    for (const name of ['qemu-system-x86_64', 'apt-get']) rmSync(join(folder, 'bin', name));
    const system = { distribution: 'fedora', name: 'Fedora' } as const;
    const context = { ...(await contextOf(environment({ CI: '1' }))), system };
    const { message } = await failure(checkBeforeGetting(context, RUN_PIECES, { ...MACHINE, openFiles: () => 1_023 }));
    expect(message).toContain('Set-up found 4 problems');
    expect(message).toMatch(
      /- Missing on this machine: qemu\.\n {2}fix: (?:sudo )?dnf install -y qemu-system-x86-core\n/,
    );
    expect(message).toContain("- Fedora has no apt, so Debian's guest kernel cannot be fetched.\n");
    expect(message).toMatch(/- There is no static busybox on PATH\.\n {2}fix: (?:sudo )?dnf install -y busybox\n/);
    expect(message).toContain('- The embedded stack needs 1024 open files, but this process may open only 1023.\n');
  });
});

describe('what doctor shows of Rust and the cache', () => {
  it('Rust is asked for only where the binaries are not built', async () => {
    const cargo = join(folder, 'bin', 'cargo');
    expect((await inspectHost(environment())).rust).toEqual({
      isNeeded: true,
      minimumVersion: '1.85',
      path: cargo,
      version: '1.90.0',
      problem: null,
      remedy: null,
    });
    rmSync(cargo);
    expect((await inspectHost(environment())).rust).toMatchObject({
      isNeeded: true,
      path: null,
      problem: expect.stringContaining('there is no cargo on PATH'),
      remedy: 'Install Rust from https://rustup.rs and retry.',
    });
    for (const name of ['keeper', 'initramfs']) writeFileSync(join(folder, name), name);
    const named = { VOIDBOX_VM: join(folder, 'keeper'), VOIDBOX_INITRAMFS: join(folder, 'initramfs') };
    expect((await inspectHost(environment(named))).rust).toMatchObject({ isNeeded: false, problem: null });
  });

  it('the cache needs room for what is missing, and nothing where everything is there', async () => {
    const { cache } = await inspectHost(environment(), () => ({ availableBytes: 1420 * MIB - 1, sizeBytes: 1e12 }));
    expect(cache).toMatchObject({ neededBytes: 1420 * MIB, problem: expect.stringContaining('takes up to 1420 MiB') });
    const enough = await inspectHost(environment(), () => ({ availableBytes: 1420 * MIB, sizeBytes: 1e12 }));
    expect(enough.cache).toMatchObject({ problem: null, remedy: null });
    expect(existsSync(join(folder, 'cache'))).toBe(false);
  });
});
