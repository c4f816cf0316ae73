/** The Sandbox port over a mock VM. */
import { Buffer } from 'node:buffer';
import type { Exec, Sandbox } from '../../activities/ports/sandbox.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { readTar } from '../../tar/read.ts';
import { writeTar } from '../../tar/write.ts';
import { saveMockDisk } from './disk.ts';
import type { MockExec } from './exec.ts';
import { boundsOf, type MockHold } from './hold.ts';
import type { MockVm } from './vm.ts';

/** The limit of a file, because a mock keeps files in memory. */
const FILE_BYTES = 256 * 1024 * 1024;
const CHUNK_BYTES = 64 * 1024;

export function createMockSandbox(vm: MockVm, hold: MockHold, attached: boolean): Sandbox {
  const { bootMs, life, hadCommands } = vm;
  const what = { isolation: 'none', vmm: 'mock', accelerator: 'mock', kernel: 'none (mock)', jail: 'none' } as const;
  const guard = createGuard(vm, hold);
  return {
    facts: {
      ...what,
      bootMs,
      start: 'cold',
      snapshot: null,
      startNote: null,
      attached,
      vmLife: life,
      hadCommands,
      fence: hold.fence,
    },
    ...createCommandOps(vm, hold, guard),
    ...createFileOps(vm, guard),
    ...createLifeOps(vm, hold, guard),
  };
}

/** Ends each operation together with the VM, the hold on it, or its caller's signal. */
interface Guard {
  /** @throws the reason for which the operation may not continue */
  check(signal?: AbortSignal): void;
  pass(bytes: AsyncIterable<Uint8Array>, signal?: AbortSignal): AsyncGenerator<Uint8Array, void, void>;
}

function createGuard(vm: MockVm, hold: MockHold): Guard {
  const check = (signal?: AbortSignal): void => {
    vm.check(hold);
    signal?.throwIfAborted();
  };
  return {
    check,
    async *pass(bytes, signal) {
      for await (const chunk of bytes) {
        check(signal);
        yield chunk;
      }
    },
  };
}

function createCommandOps(
  vm: MockVm,
  hold: MockHold,
  { check, pass }: Guard,
): Pick<Sandbox, 'exec' | 'attachExec' | 'execs'> {
  return {
    async exec(request, signal) {
      check(signal);
      const { exec, known } = vm.startExec(request);
      const { stdin } = request;
      const feeding = stdin === null ? null : exec.stdin.feed((offset) => pass(stdin.open(offset)));
      return mockExec(vm, hold, exec, known, feeding);
    },

    attachExec: (key) => mockExec(vm, hold, vm.findExec(key), true, null),

    async execs() {
      check();
      return vm.execs;
    },
  };
}

function createFileOps(
  vm: MockVm,
  { check, pass }: Guard,
): Pick<Sandbox, 'writeFile' | 'readFile' | 'putTar' | 'getTar' | 'getFolder'> {
  return {
    async writeFile(guestPath, sizeBytes, bytes, signal, mode) {
      check(signal);
      const body = await collect(pass(bytes, signal), sizeBytes);
      if (body.length !== sizeBytes)
        throw new Error(`writeFile ${guestPath}: the source ended at ${body.length} of ${sizeBytes} bytes`);
      vm.files.write(guestPath, body, mode);
    },

    async readFile(guestPath, signal) {
      check(signal);
      const node = vm.files.find(guestPath);
      return node?.kind === 'file' ? { sizeBytes: node.body.length, bytes: pass(toChunks(node.body), signal) } : null;
    },

    async putTar(guestPath, bytes, signal) {
      check(signal);
      vm.files.makeDir(guestPath);
      for await (const entry of readTar(pass(bytes, signal), FILE_BYTES)) vm.files.unpack(guestPath, entry);
    },

    async getTar(guestPath, signal) {
      check(signal);
      const items = vm.files.pack(guestPath);
      return items === null ? null : pass(writeTar(items), signal);
    },

    async getFolder(guestPath, signal) {
      check(signal);
      if (vm.files.find(guestPath)?.kind !== 'dir') return null;
      return pass(writeTar(vm.files.pack(guestPath) ?? []), signal);
    },
  };
}

function createLifeOps(
  vm: MockVm,
  hold: MockHold,
  { check }: Guard,
): Pick<Sandbox, 'usage' | 'checkpoint' | 'retain' | 'renew' | 'detach' | 'stop'> {
  return {
    async checkpoint(target, signal) {
      check(signal);
      const running = vm.execs.find(({ isRunning }) => isRunning);
      if (running !== undefined)
        throw new CodedError(
          'vm/busy',
          `mock VM ${vm.name} runs the command ${running.key}: end it before a checkpoint`,
        );
      return await saveMockDisk(vm, target);
    },

    async usage() {
      check();
      // A mock VM has no process and no disk. Its files are in the worker's memory, which is not counted for each VM.
      return { cpuMs: 0, memoryPeakMib: null, diskBytes: 0 };
    },

    async retain() {
      check();
      // The VM is in the worker's memory, where no user can inspect it.
      return null;
    },

    async renew() {
      check();
    },

    detach() {
      hold.cut(() => new CodedError('fence/stale', `mock VM ${vm.name}: this holder has detached from it`));
    },

    async stop() {
      if (!vm.isAlive) return;
      check();
      vm.end(`mock VM ${vm.name} was stopped`);
    },
  };
}

function mockExec(vm: MockVm, hold: MockHold, exec: MockExec, known: boolean, feeding: Promise<void> | null): Exec {
  const feedFailure = new Promise<never>((_, reject) => void feeding?.catch(reject));
  feedFailure.catch(() => undefined);
  return {
    attached: known,
    output(stream, offset, signal) {
      return exec.spool.read(stream, offset, boundsOf(signal, hold));
    },
    async wait(signal) {
      const bounds = boundsOf(signal, hold);
      vm.check(hold);
      bounds.check();
      let off: () => void = () => undefined;
      const ended = new Promise<never>((_, reject) => (off = bounds.onEnd(reject)));
      try {
        const exit = await Promise.race([exec.ended, feedFailure, ended]);
        vm.check(hold);
        return exit;
      } finally {
        off();
      }
    },
    async signal(name) {
      vm.check(hold);
      exec.kill(name);
    },
    async end(cause, graceMs) {
      vm.check(hold);
      exec.interrupt({ cause }, graceMs);
    },
    /** The programs are functions, which cannot be frozen. */
    whileFrozen: async () => false,
    async acknowledge() {
      vm.check(hold);
      exec.isAcknowledged = true;
    },
  };
}

async function collect(bytes: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Buffer> {
  if (maxBytes > FILE_BYTES)
    throw new CodedError('vm/guest-error', `a mock guest holds files of at most ${FILE_BYTES} bytes`);
  const parts: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const chunk of bytes) {
    sizeBytes += chunk.length;
    if (sizeBytes > maxBytes) throw new Error(`the source has more than its ${maxBytes} bytes`);
    parts.push(chunk);
  }
  return Buffer.concat(parts);
}

async function* toChunks(body: Buffer): AsyncGenerator<Uint8Array, void, void> {
  for (let at = 0; at < body.length; at += CHUNK_BYTES) yield body.subarray(at, at + CHUNK_BYTES);
}
