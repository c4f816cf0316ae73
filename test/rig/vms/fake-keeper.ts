/**
 * A scripted keeper: a Unix socket server and a `voidbox-vm` that is a shell script. These tests cover behaviour that a real
 * keeper never shows (garbage, half answers, silence); sandbox/*.vm.test.ts has the real one.
 */
import { Buffer } from 'node:buffer';
import { chmod, link, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach } from 'vitest';
import { MicroVm } from '../../../native/index.ts';

export interface FakeKeeper {
  readonly dir: string;
  readonly binary: string;
  setState(state: string, exit?: object): Promise<void>;
  kill(): void;
}

export type Handler = (request: Record<string, unknown>, socket: Socket) => void;

const cleanups: (() => Promise<void> | void)[] = [];

/** Ends the keepers and clients of each test of the file. */
export function useFakeKeepers(): void {
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  });
}

export async function fakeKeeper(
  handlers: Record<string, Handler>,
  options: { readonly deep?: boolean } = {},
): Promise<FakeKeeper> {
  const base = await mkdtemp(join(tmpdir(), 'voidbox-client-'));
  cleanups.push(() => rm(base, { recursive: true, force: true }));
  const dir = options.deep === true ? join(base, 'd'.repeat(120), 'vm') : join(base, 'vm');
  await mkdir(dir, { recursive: true });
  const stateFile = join(base, 'state.json');
  const binary = join(base, 'voidbox-vm');
  await writeFile(
    binary,
    `#!/bin/sh\ncase "$1" in launch) cat >'${base}/config.json'; echo '{"state":"created"}';; *) cat '${stateFile}';; esac\n`,
  );
  await chmod(binary, 0o755);
  const setState = (state: string, exit?: object): Promise<void> =>
    writeFile(stateFile, JSON.stringify({ state, pid: null, fence: 1, exit: exit ?? null }));
  await setState('running');

  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    let text = '';
    const onData = (chunk: Buffer): void => {
      text += chunk.toString('utf8');
      for (;;) {
        const end = text.indexOf('\n');
        if (end === -1) return;
        const request = JSON.parse(text.slice(0, end)) as Record<string, unknown>;
        text = text.slice(end + 1);
        const handler = handlers[request['op'] as string];
        if (handler !== undefined) handler(request, socket);
        else if (request['op'] === 'attach') answer(socket, request, { fence: 7 });
        else answer(socket, request, {});
        if (STREAMS.has(request['op'] as string)) {
          socket.off('data', onData);
          if (text !== '') socket.unshift(Buffer.from(text));
          return;
        }
      }
    };
    socket.on('data', onData);
  });
  // Binding needs a short path too; the socket is made beside and linked into the deep folder.
  const bound = join(base, 'k.sock');
  await new Promise<void>((resolve) => server.listen(bound, resolve));
  await link(bound, join(dir, 'k.sock'));
  const kill = (): void => {
    for (const socket of sockets) socket.destroy();
    server.close();
  };
  cleanups.push(kill);
  return { dir, binary, setState, kill };
}

const STREAMS = new Set(['exec.output', 'exec.stdin', 'file.put', 'file.get', 'tar.put', 'tar.get']);

export function answer(socket: Socket, request: Record<string, unknown>, ok: object): void {
  socket.write(`${JSON.stringify({ id: request['id'], ok })}\n`);
}

/** The status of a keeper of this build. */
export const STATUS = {
  state: 'ready',
  vmKey: 'run/scope/0',
  fence: 3,
  bootMs: 1,
  startedAtMs: 1_700_000_000_000,
  boots: 1,
  vmm: 'qemu',
  accelerator: 'tcg',
  kernel: 'debian',
  jail: 'j',
  memoryMib: 128,
  leaseLeftMs: 5,
  execs: [],
  diskFull: null,
  features: [],
};

export function launchFake(keeper: FakeKeeper): Promise<MicroVm> {
  const config = {
    vmKey: 'run/scope/0',
    memoryMib: 128,
    vcpus: 1,
    diskMib: 64,
    kernel: { path: '/k', kind: 'debian' as const },
    initramfs: '/i',
    vmm: { name: 'qemu', program: '/q', accelerator: 'tcg', bwrap: '/b' } as const,
    mounts: [],
  };
  return MicroVm.launch({ keeper: keeper.binary, dir: keeper.dir, config }, soon()).then((vm) => {
    cleanups.push(() => vm.close());
    return vm;
  });
}

export const soon = (): AbortSignal => AbortSignal.timeout(10_000);
