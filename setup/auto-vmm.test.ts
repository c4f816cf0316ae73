import { expect, test } from 'vitest';
import { type AutoVmmHost, prepareAutoVmm } from './auto-vmm.ts';
import { readEnvironment } from './environment.ts';
import { SetupError } from './resolve.ts';

async function prepare(isDeclared: boolean, resolve: () => Promise<never>): Promise<readonly string[]> {
  const lines: string[] = [];
  const host: AutoVmmHost = { isHardwareKvmDeclared: () => isDeclared, resolveOptionalPieces: resolve };
  await prepareAutoVmm(readEnvironment(), (line) => lines.push(line), host);
  return lines;
}

const fail = (error: Error) => (): Promise<never> => Promise.reject(error);

test('a host whose KVM turns out to be an emulation, or that lacks Rust, runs VMs of `auto` on QEMU and prints why', async () => {
  expect(await prepare(true, fail(new SetupError('mode: vmm needs hardware KVM', 'Use mode: qemu')))).toEqual([
    'VMs with mode: auto take QEMU, because voidbox-vmm cannot be made: mode: vmm needs hardware KVM',
  ]);
});

test('a host without hardware KVM makes nothing for `auto`', async () => {
  expect(await prepare(false, fail(new Error('asked for')))).toEqual([]);
});

test('a fault that is no lack of a piece is passed on', async () => {
  await expect(prepare(true, fail(new TypeError('a fault')))).rejects.toThrow('a fault');
});
