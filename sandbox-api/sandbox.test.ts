/** Tests the promises of the API on mocks. */
import { Buffer } from 'node:buffer';
import { afterEach, expect, test } from 'vitest';
import { readTar } from '../tar/read.ts';
import { writeTar } from '../tar/write.ts';
import { type LaunchOptions, Sandbox } from './index.ts';
import { mockVms } from './sources.ts';

const opened: Sandbox[] = [];
afterEach(async () => {
  for (const sandbox of opened.splice(0)) await sandbox.stop();
  const left = await mockVms().list();
  if (left.length > 0) throw new Error(`a test left ${JSON.stringify(left)}`);
});

async function launch(options: LaunchOptions = {}): Promise<Sandbox> {
  const sandbox = await Sandbox.launch({ mode: 'mock', ...options });
  opened.push(sandbox);
  return sandbox;
}

async function textOf(bytes: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of bytes) parts.push(part);
  return Buffer.concat(parts).toString();
}

async function* chunks(...texts: readonly string[]): AsyncGenerator<Uint8Array, void, void> {
  for (const text of texts) yield Buffer.from(text);
}

test('a command returns its output and its end', async () => {
  const vm = await launch();
  expect(vm.facts).toMatchObject({ isolation: 'none', accelerator: 'mock' });
  expect(await vm.exec('echo', ['one', 'two'])).toMatchObject({
    reason: 'exited',
    exitCode: 0,
    stdout: 'one two\n',
    stderr: '',
  });
  expect(await vm.exec('false')).toMatchObject({ reason: 'exited', exitCode: 1 });
  expect(await vm.exec('no-such-program')).toMatchObject({ reason: 'cannot-start', exitCode: 127 });
  expect(await vm.exec('sleep', ['60'], { timeoutMs: 50 })).toMatchObject({ reason: 'timeout', exitCode: 143 });
  expect(await vm.commands(), 'exec leaves nothing').toEqual([]);
});

test.each([
  ['a text', 'one\ntwo\n'],
  ['bytes', Buffer.from('one\ntwo\n')],
  ['a source of unknown length', chunks('one\n', 'two\n')],
] as const)('standard input is %s', async (_, stdin) => {
  expect((await (await launch()).exec('cat', [], { stdin })).stdout).toBe('one\ntwo\n');
});

test('a command answers while its input is open, and ends with it', async () => {
  const vm = await launch();
  const command = await vm.spawn('cat', [], { stdin: 'pipe' });
  const output = command.stdout[Symbol.asyncIterator]();
  const next = async (): Promise<string> => Buffer.from((await output.next()).value as Uint8Array).toString();
  await command.stdin!.write('first');
  expect(await next()).toBe('first');
  await command.stdin!.write('second');
  expect(await next()).toBe('second');
  command.stdin!.end();
  expect(await command.wait()).toMatchObject({ exitCode: 0, stdoutBytes: 11 });
  await expect(command.stdin!.write('late')).rejects.toThrow(/has ended|was written/);
});

test('a writer does not wait for a command that has ended', async () => {
  const command = await (await launch()).spawn('sleep', ['60'], { stdin: 'pipe' });
  const written = command.stdin!.write(Buffer.alloc(4 * 1024 * 1024));
  await command.kill('SIGKILL');
  expect(await command.wait()).toMatchObject({ reason: 'killed', exitCode: 137 });
  await written;
});

test("variables of the sandbox reach every command, and a command's own variable overrides one of them", async () => {
  const vm = await launch({ env: { A: 'sandbox', B: 'sandbox' } });
  const { stdout } = await vm.exec('env', [], { env: { B: 'command' } });
  expect(stdout.trim().split('\n')).toEqual(expect.arrayContaining(['A=sandbox', 'B=command']));
});

test('an aborted command is killed, and exec throws the reason', async () => {
  const vm = await launch();
  const abort = new AbortController();
  const running = vm.exec('sleep', ['60'], { signal: abort.signal });
  setTimeout(() => abort.abort(new Error('enough')), 20);
  await expect(running).rejects.toThrow('enough');
  expect(await vm.commands()).toEqual([]);
  await expect(vm.exec('echo', [], { signal: abort.signal })).rejects.toThrow('enough');
});

test('a command whose input breaks is ended, and exec throws why', async () => {
  const vm = await launch();
  const broken = async function* (): AsyncGenerator<Uint8Array, void, void> {
    yield Buffer.from('half');
    throw new Error('the source broke');
  };
  await expect(vm.exec('cat', [], { stdin: broken() })).rejects.toThrow('the source broke');
  await expect.poll(async () => (await vm.commands()).filter(({ isRunning }) => isRunning)).toEqual([]);
});

test('a command in the background is found by its id, also from another handle', async () => {
  const vm = await launch({ name: 'shared', keep: true });
  const server = await vm.spawn('sleep', ['60'], { id: 'server' });
  expect(await vm.commands()).toEqual([{ id: 'server', isRunning: true }]);
  expect(await vm.command('other')).toBeNull();
  const again = await vm.spawn('echo', ['never'], { id: 'server' });
  await again.kill();
  expect(await server.wait(), 'it is the same command').toMatchObject({ reason: 'killed' });

  const echoed = await vm.spawn('echo', ['hello'], { id: 'echo' });
  await echoed.wait();
  const other = await Sandbox.connect(vm.id);
  opened.push(other);
  const command = (await other.command('echo'))!;
  expect(await textOf(command.stdout)).toBe('hello\n');
  expect(await textOf(command.output('stdout', { offset: 3 }))).toBe('lo\n');
  await command.forget();
  expect(await other.commands()).toEqual([{ id: 'server', isRunning: false }]);
});

test('one process owns a VM: the last that connected', async () => {
  const first = await launch();
  const second = await Sandbox.connect(first.id);
  opened.push(second);
  await expect(first.exec('echo')).rejects.toMatchObject({ code: 'fence/stale' });
  // The first handle no longer owns the VM, so its end changes nothing.
  await first.close();
  expect((await second.exec('echo', ['alive'])).stdout).toBe('alive\n');
  await second.close();
});

test('a block ends its VM, unless the VM is kept', async () => {
  let id = '';
  let kept = '';
  {
    await using vm = await Sandbox.launch({ mode: 'mock', name: 'block' });
    await using other = await Sandbox.launch({ mode: 'mock', keep: { ttlMs: 60_000 } });
    ({ id } = vm);
    kept = other.id;
    expect(await mockVms().list()).toMatchObject([
      { id, name: 'block', mode: 'mock', keepTtlMs: null, launchedByPid: process.pid },
      { id: kept, name: null, keepTtlMs: 60_000 },
    ]);
  }
  expect((await mockVms().list()).map((info) => info.id)).toEqual([kept]);
  const again = await Sandbox.connect(kept);
  await again.stop();
  await again.stop();
  await expect(again.exec('echo')).rejects.toMatchObject({ code: 'vm/lost' });
});

test('files and tars are copied in and out', async () => {
  const vm = await launch();
  await vm.writeFile('/workspace/in/a.txt', 'text');
  expect(String(await vm.readFile('/workspace/in/a.txt'))).toBe('text');
  expect(await vm.readFile('/workspace/in')).toBeNull();
  expect(await vm.readFile('/workspace/none')).toBeNull();
  await expect(vm.readFile('/workspace/in/a.txt', { maxBytes: 3 })).rejects.toThrow(/has 4 bytes, at most 3 are read/);
  await vm.putTar('/workspace/tar', writeTar([{ path: 'b.txt', kind: 'file', mode: 0o644, body: Buffer.from('b') }]));
  const names: string[] = [];
  for await (const entry of readTar((await vm.getTar('/workspace/tar'))!, 1024)) names.push(entry.path);
  expect(names).toContain('b.txt');
  expect(await vm.getTar('/workspace/none')).toBeNull();
  expect(await vm.usage()).toMatchObject({ diskBytes: 0 });
});

test.each<[LaunchOptions, RegExp]>([
  [{ memoryMib: 64 }, /^memoryMib is 64, expected 128 to 65536 MiB$/],
  [{ vcpus: 1.5 }, /^vcpus is 1.5, expected 1 to 64/],
  [{ diskMib: 1 }, /^diskMib is 1, expected 64 to/],
  [{ name: 'a\nb' }, /^name is "a\\nb", expected 1 to 100 characters/],
  [{ mode: 'docker' as 'mock' }, /^mode is "docker", expected one of auto, qemu, vmm, mock$/],
  [{ isolation: 'some' as 'none' }, /^isolation is "some"/],
  [{ keep: { ttlMs: 1 } }, /^keep.ttlMs is 1, expected 10000 to 604800000 milliseconds$/],
  [{ waitMs: -1 }, /^waitMs is -1/],
  [{ env: { 'A=B': 'x' } }, /^env is "A=B", expected names of letters, digits and _$/],
  [{ env: { A: 'secret\0' } }, /^env.A must be a text without NUL$/],
  [{ mounts: [{ hostPath: '.', guestPath: 'data' }] }, /^mounts\[0\].guestPath is "data", expected an absolute path$/],
  [
    { mounts: [{ hostPath: '.', guestPath: '/d', mode: 'rw' as 'ro' }] },
    /^mounts\[0\].mode is "rw", expected ro: use putTar/,
  ],
  [
    { memoryMb: 512 } as object,
    /^the options of `launch` have no "memoryMb"; did you mean "memoryMib"\?, expected: name, memoryMib, /,
  ],
  [{ snapshot: 'deps' as 'none' }, /^snapshot is "deps", expected none: the VM boots. `from` names a checkpoint$/],
])('an option that cannot be is named: %j', async (options, message) => {
  await expect(Sandbox.launch({ mode: 'mock', ...options })).rejects.toThrow(message);
});

test('options of commands and paths are checked before a request is sent', async () => {
  const vm = await launch();
  await expect(vm.exec('')).rejects.toThrow(/^program is ""/);
  await expect(vm.exec('echo', [], { cwd: 'x' })).rejects.toThrow(
    /^cwd is "x", expected an absolute path of the guest$/,
  );
  await expect(vm.exec('echo', [], { timeoutMs: 8 * 86_400_000 })).rejects.toThrow(
    /^timeoutMs is 691200000, expected 1 to/,
  );
  await expect(vm.exec('echo', [], { timeout: 5 } as object)).rejects.toThrow(
    /^the options of `exec` have no "timeout"/,
  );
  await expect(vm.spawn('echo', [], { signal: AbortSignal.abort() } as object)).rejects.toThrow(
    /^the options of `spawn` have no "signal"/,
  );
  await expect(vm.exec('echo', [], { maxOutputBytes: 2 ** 30 })).rejects.toThrow(/^maxOutputBytes is/);
  await expect(vm.spawn('cat', [], { stdin: 'text' as 'pipe' })).rejects.toThrow(
    /^stdin is "text", expected 'pipe', bytes/,
  );
  await expect(vm.spawn('echo', [], { id: '../x' })).rejects.toThrow(/^id is "..\/x"/);
  await expect(vm.readFile('a')).rejects.toThrow(/^path is "a"/);
  await expect(Sandbox.connect('../x')).rejects.toThrow(/^id is "..\/x", expected the id of a sandbox/);
});

test('a launch that requires isolation is refused in mode mock', async () => {
  await expect(launch({ isolation: 'microvm' })).rejects.toMatchObject({ code: 'host/isolation' });
});

test('a signal that was given before the launch ends it', async () => {
  await expect(launch({ signal: AbortSignal.abort(new Error('no')) })).rejects.toThrow('no');
});
