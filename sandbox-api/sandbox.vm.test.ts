/** Tests with real VMs: one that a process leaves and other processes use, and one whose process is killed. */
import { execFile, spawn } from 'node:child_process';
import { Buffer } from 'node:buffer';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import type { SandboxFacts } from '../activities/ports/sandbox.ts';
import { createQemuBackend } from '../sandbox/micro-vm/qemu/backend.ts';
import { VM_OVERHEAD_MIB } from '../sandbox/micro-vm/qemu/vm-overhead.ts';
import { sweepVms } from '../sandbox/sweep.ts';
import { readEnvironment } from '../setup/environment.ts';
import { resolveHostPieces } from '../setup/resolve.ts';
import { readTar } from '../tar/read.ts';
import { writeTar } from '../tar/write.ts';
import { type ExecResult, type NetworkEvent, Sandbox } from './index.ts';
import { makeStateFolder } from '../test/rig/runs/state-folder.ts';
import { checkLaunchOptions, type LaunchOptions } from './launch-options.ts';
import { createRealVms } from './real-vms.ts';

const API = new URL('../dist/sandbox-api/index.js', import.meta.url).href;
const BIN = fileURLToPath(new URL('../bin/voidbox.js', import.meta.url));
const SMALL = { memoryMib: 192, diskMib: 64 };

let stateDir: string;
beforeAll(() => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-direct-'));
  mkdirSync(join(makeStateFolder(stateDir), 'vms'), { mode: 0o700 });
});
afterAll(async () => {
  for (const { id } of await Sandbox.list({ stateDir })) await (await Sandbox.connect(id, { stateDir })).stop();
  // The keeper of a VM that has just ended may still write its last lines.
  await rm(stateDir, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
});

const cli = async (...args: readonly string[]): Promise<string> => {
  const env = { ...process.env, VOIDBOX_STATE_DIR: stateDir, NO_COLOR: '1' };
  return (await promisify(execFile)(process.execPath, [BIN, ...args], { env, timeout: 60_000 })).stdout;
};

/** The source of a program that launches a VM and prints its id. */
async function program(name: string, options: object, rest: string): Promise<string> {
  const file = join(stateDir, `${name}.mjs`);
  const launch = JSON.stringify({ ...SMALL, ...options, name, stateDir });
  await writeFile(
    file,
    `import { Sandbox } from ${JSON.stringify(API)};\nconst vm = await Sandbox.launch(${launch});\nconsole.log(vm.id);\n${rest}\n`,
  );
  return file;
}

async function until(what: string, isDone: () => boolean | Promise<boolean>, limitMs = 60_000): Promise<void> {
  const deadlineMs = Date.now() + limitMs;
  while (!(await isDone())) {
    if (Date.now() > deadlineMs) throw new Error(`${what}: not within ${limitMs} ms`);
    await sleep(50);
  }
}

const runDirs = (): readonly string[] =>
  readdirSync(join(stateDir, 'vms')).filter((name) => !name.startsWith('.admission'));

async function textOf(bytes: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of bytes) parts.push(part);
  return Buffer.concat(parts).toString();
}

test('a kept VM outlives its program, is driven by the next one, and counts with the VMs of workers', async () => {
  const data = join(stateDir, 'data');
  await mkdir(data);
  await writeFile(join(data, 'on-the-host.txt'), 'mounted');
  const file = await program(
    'kept',
    { keep: { ttlMs: 600_000 }, mounts: [{ hostPath: data, guestPath: '/data' }] },
    `await vm.spawn('sleep', ['600'], { id: 'server' });`,
  );
  // The program ends, because an open sandbox does not keep a program alive.
  const { stdout } = await promisify(execFile)(process.execPath, [file], { timeout: 240_000 });
  const id = stdout.trim();
  expect(await Sandbox.list({ stateDir })).toMatchObject([
    { id, name: 'kept', mode: 'qemu', keepTtlMs: 600_000, memoryMib: 192, vcpus: 1 },
  ]);
  const { vms } = JSON.parse(await cli('ps', '--json')) as { readonly vms: readonly object[] };
  expect(vms).toMatchObject([{ state: 'running', vmKey: `direct/${id}`, direct: { id, name: 'kept' } }]);
  expect(await cli('ps')).toContain(`sandbox ${id} (kept, kept)`);
  expect(await cli('down')).toContain('1 sandbox of other programs is not part of the stack and continues');

  const vm = await Sandbox.connect(id, { stateDir, env: { WHO: 'Ada' } });
  expect(vm.facts).toMatchObject({ isolation: 'microvm', attached: true, hadCommands: true });
  expect(await vm.commands()).toEqual([{ id: 'server', isRunning: true }]);
  await (await vm.command('server'))!.kill();
  expect(await (await vm.command('server'))!.wait()).toMatchObject({ exitCode: 143 });

  const script = 'echo "$WHO $1"; echo oops >&2; exit 3';
  expect(await vm.exec('sh', ['-c', script, 'sh', 'x y'])).toMatchObject({
    reason: 'exited',
    exitCode: 3,
    stdout: 'Ada x y\n',
    stderr: 'oops\n',
  });
  expect((await vm.exec('cat', [], { stdin: 'text' })).stdout).toBe('text');
  expect(await vm.exec('nothing-of-this-name')).toMatchObject({ reason: 'cannot-start', exitCode: 127 });

  const shell = await vm.spawn('sh', [], { stdin: 'pipe' });
  const answers = shell.stdout[Symbol.asyncIterator]();
  await shell.stdin!.write('echo one\n');
  expect(String(Buffer.from((await answers.next()).value as Uint8Array))).toBe('one\n');
  await shell.stdin!.write('echo two; cat\n');
  expect(String(Buffer.from((await answers.next()).value as Uint8Array))).toBe('two\n');
  await shell.stdin!.write('rest');
  shell.stdin!.end();
  expect(await shell.wait()).toMatchObject({ exitCode: 0 });
  expect(await textOf(shell.output('stdout', { offset: 8 }))).toBe('rest');

  expect((await vm.exec('cat', ['/data/on-the-host.txt'])).stdout).toBe('mounted');
  expect(await vm.exec('touch', ['/data/new'])).toMatchObject({ exitCode: 1 });

  await vm.writeFile('/workspace/a/b.txt', 'file');
  expect(String(await vm.readFile('/workspace/a/b.txt'))).toBe('file');
  await vm.putTar('/workspace/t', writeTar([{ path: 'c.txt', kind: 'file', mode: 0o644, body: Buffer.from('c') }]));
  const names: string[] = [];
  for await (const entry of readTar((await vm.getTar('/workspace/t'))!, 1024)) names.push(entry.path);
  expect(names).toEqual(['c.txt']);
  expect((await vm.usage()).cpuMs).toBeGreaterThan(0);

  // The VM counts for both: for launches of a worker, and for launches of a program.
  const pieces = await resolveHostPieces(readEnvironment(), { install: false });
  const accelerator = vm.facts.accelerator as keyof typeof VM_OVERHEAD_MIB;
  const needMib = 192 + VM_OVERHEAD_MIB[accelerator];
  const vmsDir = join(stateDir, 'vms');
  const worker = createQemuBackend({
    vmsDir,
    keeper: pieces.keeper,
    pieces: async () => pieces,
    extra: () => Promise.reject(new Error('no VM here has extras')),
    hostMemoryMib: () => 65_536,
    budgetMib: () => 2 * needMib - 1,
  });
  const key = { runId: 'run', scope: 'scope', instance: [], generation: 0 };
  const spec = { ...SMALL, mode: 'qemu', isolation: 'microvm', vcpus: 1, mounts: [] } as const;
  try {
    await expect(worker.launch(key, spec, new AbortController().signal)).rejects.toMatchObject({
      code: 'vm/no-capacity',
      message: `scope scope waits for memory: its VM needs ${needMib} MiB with its overhead: ${needMib} of ${2 * needMib - 1} MiB are taken by 1 VMs`,
      nextRetryDelayMs: 2_000,
    });
  } finally {
    await worker.release(key);
  }
  const crowded = createRealVms({
    stateDir,
    env: readEnvironment(),
    pieces: async () => pieces,
    extra: () => Promise.reject(new Error('no VM here has extras')),
    budgetMib: () => 2 * needMib - 1,
  });
  const small = checkLaunchOptions({ ...SMALL, name: 'second', waitMs: 600 });
  await expect(crowded.launch(small, new AbortController().signal)).rejects.toMatchObject({
    code: 'vm/no-capacity',
    message: expect.stringContaining('sandbox second waits for memory'),
  });
  const large = checkLaunchOptions({ ...SMALL, memoryMib: needMib + 192 });
  await expect(crowded.launch(large, new AbortController().signal)).rejects.toMatchObject({ code: 'vm/too-large' });
  // A worker's sweep neither ends the VM nor takes it for a VM of a run.
  expect((await sweepVms(pieces.keeper, vmsDir)).filter(({ alive }) => alive)).toEqual([]);

  const next = await Sandbox.connect(id, { stateDir });
  await expect(vm.exec('true')).rejects.toMatchObject({ code: 'fence/stale' });
  await vm.stop();
  expect((await next.exec('echo', ['alive'])).stdout).toBe('alive\n');
  await next.close();
  expect(await Sandbox.list({ stateDir }), 'it was kept').toHaveLength(1);
  const last = await Sandbox.connect(id, { stateDir });
  await last.stop();
  expect(await Sandbox.list({ stateDir })).toEqual([]);
  await expect(Sandbox.connect(id, { stateDir })).rejects.toMatchObject({ code: 'vm/lost' });
  await expect(last.exec('true')).rejects.toMatchObject({ code: 'vm/lost' });
});

test('a VM ends with its process, killed or not, and leaves no files', async () => {
  const before = runDirs();
  const file = await program('owner', {}, `setInterval(() => undefined, 1_000);`);
  const owner = spawn(process.execPath, [file], { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    const id = (await textOfLine(owner.stdout!)).trim();
    expect(await Sandbox.list({ stateDir })).toMatchObject([{ id, keepTtlMs: null, launchedByPid: owner.pid }]);
    const dir = join(
      stateDir,
      'vms',
      runDirs().find((name) => !before.includes(name))!,
    );
    const keeper = JSON.parse(readFileSync(join(dir, 'keeper.json'), 'utf8')) as { readonly pid: number };
    expect(existsSync(`/proc/${keeper.pid}`)).toBe(true);
    owner.kill('SIGKILL');
    await until('the keeper stays', () => !existsSync(`/proc/${keeper.pid}`));
    await until('its folder stays', () => runDirs().every((name) => before.includes(name)));
    expect(await Sandbox.list({ stateDir })).toEqual([]);
  } finally {
    owner.kill('SIGKILL');
  }
});

test('an aborted launch leaves no files, and the error of an impossible launch names the reason', async () => {
  const before = runDirs();
  const abort = new AbortController();
  const launching = Sandbox.launch({ ...SMALL, stateDir, signal: abort.signal });
  launching.catch(() => undefined);
  const isStarted = (name: string): boolean => existsSync(join(stateDir, 'vms', name, 'started'));
  await until('no VM is started', () => runDirs().some((name) => !before.includes(name) && isStarted(name)));
  abort.abort(new Error('not needed any more'));
  await expect(launching).rejects.toThrow('not needed any more');
  await until('its folder stays', () => runDirs().every((name) => before.includes(name)));

  const mounts = [{ hostPath: join(stateDir, 'none'), guestPath: '/data' }];
  await expect(Sandbox.launch({ ...SMALL, stateDir, mounts })).rejects.toMatchObject({
    code: 'host/not-ready',
    message: expect.stringContaining(`${join(stateDir, 'none')}, to be mounted at /data, does not exist`),
  });
  expect(runDirs()).toEqual(before);
});

async function textOfLine(stream: AsyncIterable<Uint8Array>): Promise<string> {
  let text = '';
  for await (const chunk of stream) {
    text += Buffer.from(chunk).toString();
    if (text.includes('\n')) return text;
  }
  throw new Error('the program ended without a line');
}

test('a VM with `snapshot: none` boots while other VMs of its size start from a snapshot', async () => {
  const size = { ...SMALL, memoryMib: 200, stateDir };
  const launch = async (options: LaunchOptions): Promise<SandboxFacts> => {
    await using vm = await Sandbox.launch({ ...size, ...options });
    return vm.facts;
  };
  await launch({});
  const { accelerator, start } = await launch({});
  // VMs on hardware KVM boot.
  expect(start).toBe(accelerator === 'tcg' ? 'snapshot' : 'cold');
  expect(await launch({ snapshot: 'none' })).toMatchObject({ start: 'cold', snapshot: null, startNote: null });
});

test('commands of a VM with the dev image have the variables of the image, also after another program connects', async () => {
  const vm = await Sandbox.launch({ image: 'dev', memoryMib: 512, diskMib: 64, install: true, stateDir });
  onTestFinished(() => vm.close());
  const script = ['-c', 'echo "$NODE_USE_ENV_PROXY"'];
  expect((await vm.exec('sh', script)).stdout).toBe('1\n');
  expect((await vm.exec('sh', script, { env: { NODE_USE_ENV_PROXY: '0' } })).stdout).toBe('0\n');
  const connected = await Sandbox.connect(vm.id, { stateDir });
  expect((await connected.exec('sh', script)).stdout).toBe('1\n');
  await connected.close();
});

test('a VM with the dev image reaches only its service, and its program gets events about the rest', async () => {
  const server = createServer((_request, response) => response.end('of the host')).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  try {
    const vm = await Sandbox.launch({
      image: 'dev',
      memoryMib: 512,
      diskMib: 64,
      egress: { allow: ['a.example'] },
      services: { web: `127.0.0.1:${port}` },
      install: true,
      stateDir,
    });
    onTestFinished(() => vm.close());
    const events: NetworkEvent[] = [];
    const listening = (async () => {
      for await (const event of vm.network()) events.push(event);
    })();
    const get = (url: string): Promise<ExecResult> => vm.exec('curl', ['-sS', '--max-time', '20', url]);
    expect(await get(`http://web:${port}/`)).toMatchObject({ exitCode: 0, stdout: 'of the host' });
    // The proxy refuses it, and curl takes the proxy's answer for the page.
    expect((await get(`http://b.example/`)).stdout).toContain('does not allow b.example');
    expect((await get(`http://127.0.0.1:${port}/`)).exitCode).not.toBe(0);
    await until('both events', () => events.length === 2);
    expect(events).toEqual([
      expect.objectContaining({ kind: 'closed', service: 'web', end: 'clean' }),
      expect.objectContaining({ kind: 'refused', host: 'b.example', port: 80, cause: 'rules' }),
    ]);
    await vm.close();
    await listening;
  } finally {
    server.close();
  }
});
