import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Environment, readEnvironment } from './environment.ts';
import { inspectHost, resolveHostPieces, resolveStackPieces, SetupError } from './resolve.ts';

let folder: string;
let calls: string;

/** Installs a program that answers every call with a line, and records that it was run. */
function putProgram(name: string, answer: string): string {
  const path = join(folder, 'bin', name);
  writeFileSync(path, `#!/bin/sh\necho ${name} >> ${calls}\necho '${answer}'\n`, { mode: 0o755 });
  return path;
}

function environment(extra: Record<string, string> = {}): Environment {
  return readEnvironment({
    HOME: folder,
    PATH: join(folder, 'bin'),
    VOIDBOX_CACHE_DIR: join(folder, 'cache'),
    VOIDBOX_STATE_DIR: join(folder, 'state'),
    VOIDBOX_VM: join(folder, 'keeper'),
    VOIDBOX_KERNEL: join(folder, 'vmlinuz'),
    VOIDBOX_INITRAMFS: join(folder, 'initramfs'),
    ...extra,
  });
}

function callCount(): number {
  return readFileSync(calls, 'utf8').split('\n').length - 1;
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'voidbox-resolve-'));
  calls = join(folder, 'calls');
  writeFileSync(calls, '');
  mkdirSync(join(folder, 'bin'));
  for (const name of ['sh', 'flock', 'cat']) symlinkSync(`/usr/bin/${name}`, join(folder, 'bin', name));
  for (const name of ['keeper', 'vmlinuz', 'initramfs']) writeFileSync(join(folder, name), name);
  putProgram('temporal', 'temporal version 1.9.1 (Server 1.32.0, UI 2.54.1)');
  putProgram('qemu-system-x86_64', 'QEMU emulator version 7.2.22');
  putProgram('bwrap', 'bubblewrap 0.8.0');
  putProgram('mke2fs', 'mke2fs 1.47.0 (5-Feb-2023)');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe('resolveHostPieces', () => {
  it('finds pieces by variable and PATH', async () => {
    expect(await resolveHostPieces(environment(), { install: false })).toEqual({
      temporalCli: join(folder, 'bin', 'temporal'),
      qemu: join(folder, 'bin', 'qemu-system-x86_64'),
      bwrap: join(folder, 'bin', 'bwrap'),
      mke2fs: join(folder, 'bin', 'mke2fs'),
      keeper: join(folder, 'keeper'),
      kernel: { path: join(folder, 'vmlinuz'), kind: 'voidbox', version: 'as given', isOfSetup: false },
      initramfs: join(folder, 'initramfs'),
    });
  });

  it('the second time runs nothing and takes no time', async () => {
    const first = await resolveHostPieces(environment(), { install: false });
    const callsBefore = callCount();
    // The test measures CPU time, because a busy machine stretches the time on the clock.
    const cpuBefore = process.cpuUsage();
    expect(await resolveHostPieces(environment(), { install: false })).toEqual(first);
    const { user, system } = process.cpuUsage(cpuBefore);
    expect((user + system) / 1000).toBeLessThan(50);
    expect(callCount()).toBe(callsBefore);
  });

  it('looks again when a piece has changed', async () => {
    await resolveHostPieces(environment(), { install: false });
    const callsBefore = callCount();
    utimesSync(join(folder, 'bin', 'bwrap'), 1, 1);
    await resolveHostPieces(environment(), { install: false });
    expect(callCount()).toBeGreaterThan(callsBefore);
  });

  it('refuses a variable that names nothing', async () => {
    const env = environment({ VOIDBOX_KERNEL: join(folder, 'nothing') });
    await expect(resolveHostPieces(env, { install: false })).rejects.toThrow(
      `VOIDBOX_KERNEL names ${join(folder, 'nothing')}, which does not exist.`,
    );
  });

  it('refuses a named program that is too old, and says how old', async () => {
    const old = putProgram('old-temporal', 'temporal version 1.1.0');
    const attempt = resolveHostPieces(environment({ VOIDBOX_TEMPORAL_CLI: old }), { install: false });
    await expect(attempt).rejects.toThrow('it is version 1.1.0, and 1.7.0 or newer is needed');
    await expect(attempt).rejects.toBeInstanceOf(SetupError);
  });

  it('names all missing programs at once, with the line that installs them', async () => {
    rmSync(join(folder, 'bin', 'qemu-system-x86_64'));
    rmSync(join(folder, 'bin', 'bwrap'));
    const error = await resolveHostPieces(environment(), { install: false }).catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(SetupError);
    expect(error).toMatchObject({ exitCode: 3, message: 'Missing on this machine: qemu, bwrap.' });
    expect((error as SetupError).remedy).toMatch(/bubblewrap/);
  });

  it('refuses a jail that does not work, instead of going without', async () => {
    writeFileSync(
      join(folder, 'bin', 'bwrap'),
      '#!/bin/sh\n[ "$1" = --version ] && echo "bubblewrap 0.8.0" && exit\necho "no permissions to create a new namespace" >&2\nexit 1\n',
      { mode: 0o755 },
    );
    await expect(resolveHostPieces(environment(), { install: false })).rejects.toThrow(
      'cannot make a jail (no permissions to create a new namespace)',
    );
  });
});

describe('records of what was resolved', () => {
  it('go when they are old, while young ones of other environments stay', async () => {
    mkdirSync(join(folder, 'cache'), { recursive: true });
    const [old, young] = ['resolved-0123456789abcdef.json', 'resolved-fedcba9876543210.json'].map((name) =>
      join(folder, 'cache', name),
    ) as [string, string];
    for (const file of [old, young]) writeFileSync(file, '{}');
    utimesSync(old, 1, 1);
    await resolveHostPieces(environment(), { install: false });
    expect([existsSync(old), existsSync(young)]).toEqual([false, true]);
  });
});

describe('resolveStackPieces', () => {
  it('asks for nothing that only VMs need', async () => {
    for (const name of ['qemu-system-x86_64', 'bwrap', 'mke2fs']) rmSync(join(folder, 'bin', name));
    rmSync(join(folder, 'keeper'));
    const env = environment({ VOIDBOX_KERNEL: join(folder, 'nothing') });
    await expect(resolveStackPieces(env, { install: false })).rejects.toThrow(
      `VOIDBOX_VM names ${join(folder, 'keeper')}, which does not exist.`,
    );
    writeFileSync(join(folder, 'keeper'), 'keeper');
    expect(await resolveStackPieces(env, { install: false })).toEqual({
      temporalCli: join(folder, 'bin', 'temporal'),
      keeper: join(folder, 'keeper'),
    });
  });
});

describe('inspectHost', () => {
  it('reports what is there and what is missing without changing anything', async () => {
    rmSync(join(folder, 'bin', 'bwrap'));
    const report = await inspectHost(environment());
    expect(report.isReady).toBe(false);
    expect(report.isolation.level).toBeNull();
    expect(report.pieces.find((piece) => piece.name === 'qemu')).toMatchObject({
      version: '7.2.22',
      from: 'PATH',
      problem: null,
    });
    const jail = report.pieces.find((piece) => piece.name === 'bwrap');
    expect(jail).toMatchObject({ path: null, problem: 'Missing on this machine: bwrap.' });
    expect(jail?.remedy).toContain('bubblewrap');
  });

  it('is ready when the image is there, even without what it is made of', async () => {
    const report = await inspectHost(environment());
    expect(report.pieces.find((piece) => piece.name === 'agent')?.problem).not.toBeNull();
    expect(report).toMatchObject({ isReady: true, isolation: { level: 'microvm' } });
    expect(['kvm', 'tcg']).toContain(report.isolation.accelerator);
  });
});
