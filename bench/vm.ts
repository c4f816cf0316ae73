/** Figures (b) to (e): what a VM costs. Each takes a backend, so that both kernels go through the same code. */
import { randomUUID } from 'node:crypto';
import type { LaunchSpec, Sandbox, SandboxBackend, VmKey } from '../activities/ports/sandbox.ts';
import type { Arm } from './measure.ts';

export const PLAN: LaunchSpec = {
  mode: 'qemu',
  isolation: 'microvm',
  memoryMib: 256,
  vcpus: 1,
  diskMib: 1024,
  mounts: [],
};
const never = new AbortController().signal;

/** (b) From the call to the first command's exit, and the part of it that is not the guest's kernel. */
export function coldBootArm(
  name: string,
  backend: SandboxBackend,
  change: Partial<LaunchSpec> = {},
): Arm<'toFirstExecMs' | 'kernelAndInitMs' | 'oursMs'> {
  return {
    name,
    async round() {
      const key = freshKey();
      const began = performance.now();
      const vm = await backend.launch(key, { ...PLAN, ...change }, never);
      try {
        await runTrue(vm);
        const toFirstExecMs = performance.now() - began;
        return { toFirstExecMs, kernelAndInitMs: vm.facts.bootMs, oursMs: toFirstExecMs - vm.facts.bootMs };
      } finally {
        await vm.stop();
        await backend.release(key);
      }
    },
  };
}

/** A warm VM for the figures that need one. */
export async function warmVm(
  backend: SandboxBackend,
  change: Partial<LaunchSpec> = {},
): Promise<{ readonly vm: Sandbox } & AsyncDisposable> {
  const key = freshKey();
  const vm = await backend.launch(key, { ...PLAN, ...change }, never);
  await runTrue(vm);
  return {
    vm,
    async [Symbol.asyncDispose]() {
      await vm.stop();
      await backend.release(key);
    },
  };
}

/** Syncs the disk first, because pending writes of the previous arm must not count for this one. */
export function onIdleDisk<T extends string>(vm: Sandbox, { name, round }: Arm<T>): Arm<T> {
  return {
    name,
    async round() {
      await runProgram(vm, 'sync', []);
      return await round();
    },
  };
}

/** (c) The round trip of a command that does nothing. */
export function execArm(name: string, vm: Sandbox): Arm<'roundTripMs'> {
  return {
    name,
    async round() {
      const count = 20;
      const began = performance.now();
      for (let index = 0; index < count; index++) await runTrue(vm);
      return { roundTripMs: (performance.now() - began) / count };
    },
  };
}

/** (d) A file of 64 MiB, or of another size, into the guest and out again. */
export function fileArm(name: string, vm: Sandbox, sizeMib = 64): Arm<'writeMbPerS' | 'readMbPerS'> {
  const sizeBytes = sizeMib * 1024 * 1024;
  const block = Buffer.alloc(256 * 1024, 'voidbox ');
  return {
    name,
    async round() {
      const path = '/workspace/bench.bin';
      const wrote = performance.now();
      await vm.writeFile(path, sizeBytes, blocks(block, sizeBytes), never);
      const writeS = (performance.now() - wrote) / 1000;
      const read = performance.now();
      const file = await vm.readFile(path, never);
      if (file === null) throw new Error(`${path} is not there after it was written`);
      let count = 0;
      for await (const chunk of file.bytes) count += chunk.byteLength;
      if (count !== sizeBytes) throw new Error(`read ${count} of ${sizeBytes} bytes`);
      const readS = (performance.now() - read) / 1000;
      return { writeMbPerS: sizeBytes / 1e6 / writeS, readMbPerS: sizeBytes / 1e6 / readS };
    },
  };
}

async function* blocks(block: Uint8Array, sizeBytes: number): AsyncIterable<Uint8Array> {
  for (let left = sizeBytes; left > 0; left -= block.byteLength)
    yield left < block.byteLength ? block.subarray(0, left) : block;
}

export async function runTrue(vm: Sandbox): Promise<void> {
  await runProgram(vm, 'true', []);
}

/** @throws Error if the program fails */
export async function runProgram(vm: Sandbox, program: string, args: readonly string[]): Promise<void> {
  const exec = await vm.exec(
    {
      key: randomUUID(),
      program,
      args,
      env: {},
      cwd: '/',
      stdin: null,
      timeoutMs: 60_000,
      maxOutputBytes: 1024,
    },
    never,
  );
  const exit = await exec.wait(never);
  if (exit.exitCode !== 0) throw new Error(`${program} ended with ${exit.exitCode}: ${exit.message}`);
  await exec.acknowledge();
}

function freshKey(): VmKey {
  return { runId: `bench-${randomUUID()}`, scope: 'bench', instance: [], generation: 0 };
}
