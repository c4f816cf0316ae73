/**
 * Kills keepers at each step of a VM's life: the VM ends with its keeper, the driver gets an error, and release works.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { spawn, type ChildProcess } from 'node:child_process';
import { type AddressInfo, createServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Sandbox, VmKey } from '../activities/ports/sandbox.ts';
import { readRunDir, vmRunDir } from '../native/index.ts';
import { readEnvironment } from '../setup/environment.ts';
import { resolveHostPieces } from '../setup/resolve.ts';
import { collect, limit, request, run, script } from '../test/conformance/sandbox/behaviour.ts';
import { createRealHost, SMALL_VM, type RealHost } from '../test/conformance/sandbox/real-host.ts';

/** The time between the keeper's death and the error of the driver, on a busy machine. Without a notice, it would wait for its command. */
const NOTICE_LIMIT_MS = 20_000;

let host: RealHost;
beforeAll(async () => {
  host = await createRealHost(await resolveHostPieces(readEnvironment(), { install: true, kernelKind: 'debian' }));
});
afterAll(async () => {
  const left = await host.dispose();
  if (left.length > 0) throw new Error(`left behind: ${left.join(', ')}`);
});

let keyCount = 0;
function newKey(): VmKey {
  keyCount += 1;
  return { runId: 'death', scope: `scope-${keyCount}`, instance: [], generation: 0 };
}

function launch(key: VmKey): Promise<Sandbox> {
  return host.backend.launch(key, SMALL_VM, limit());
}

async function keeperPid(key: VmKey): Promise<number> {
  const { state, pid } = await readRunDir(host.pieces.keeper, vmRunDir(host.vmsDir, key));
  expect(state).toBe('running');
  return pid as number;
}

async function killKeeper(key: VmKey): Promise<void> {
  process.kill(await keeperPid(key), 'SIGKILL');
}

/** Returns processes whose command line names the run directory, and children of its keeper. */
function processesOf(pid: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((child) => parentOf(child) === pid);
}

/** Returns null for a process that has ended, also if its parent has not reaped it yet. */
function parentOf(pid: number): number | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const [state, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return state === 'Z' ? null : Number(parent);
  } catch {
    return null;
  }
}

async function expectLost(work: Promise<unknown>): Promise<void> {
  const timer = setTimeout(() => undefined, NOTICE_LIMIT_MS);
  const late = new Promise<string>((resolve) => setTimeout(() => resolve('still waiting'), NOTICE_LIMIT_MS).unref());
  const outcome = await Promise.race([
    work.then(
      () => 'it succeeded',
      (error: unknown) => error,
    ),
    late,
  ]);
  clearTimeout(timer);
  expect(outcome).toMatchObject({ code: 'vm/lost' });
}

async function expectOver(key: VmKey): Promise<void> {
  expect((await readRunDir(host.pieces.keeper, vmRunDir(host.vmsDir, key))).state).toBe('lost');
  await expect(launch(key)).rejects.toMatchObject({
    code: 'vm/lost',
    message: expect.stringContaining('console.log') as string,
  });
  await host.backend.release(key);
  await host.backend.release(key);
  const left = readdirSync(vmRunDir(host.vmsDir, key));
  expect(left).toContain('intent.json');
  expect(left.filter((name) => name === 'k.sock' || name === 'scratch.img')).toEqual([]);
}

describe('a keeper that is killed', () => {
  it('while its VM boots', { timeout: 120_000 }, async () => {
    const key = newKey();
    const launched = launch(key);
    launched.catch(() => undefined);
    const dir = vmRunDir(host.vmsDir, key);
    let pid: number | null = null;
    while (pid === null) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      const status = await readRunDir(host.pieces.keeper, dir);
      if (status.state === 'running' && processesOf(status.pid ?? -1).length > 0) pid = status.pid;
    }
    process.kill(pid, 'SIGKILL');
    await expectLost(launched);
    await expectOver(key);
  });

  it('while a command runs, and its output, its end and its input are waited for', { timeout: 180_000 }, async () => {
    const key = newKey();
    const sandbox = await launch(key);
    const vmm = processesOf(await keeperPid(key));
    expect(vmm.length).toBeGreaterThan(0);
    const exec = await sandbox.exec(script('while :; do echo tick; sleep 0.1; done'), limit());
    const input = await sandbox.exec(
      request('cat', [], {
        stdin: {
          sizeBytes: 10,
          open: async function* () {
            yield Buffer.from('x');
            await new Promise(() => undefined);
          },
        },
      }),
      limit(),
    );
    const output = exec.output('stdout', 0, limit())[Symbol.asyncIterator]();
    expect((await output.next()).done).toBe(false);
    const waits = [exec.wait(limit()), input.wait(limit()), collect({ [Symbol.asyncIterator]: () => output })];
    for (const wait of waits) wait.catch(() => undefined);
    await killKeeper(key);
    await Promise.all(waits.map((wait) => expectLost(wait)));
    await expectLost(sandbox.renew());
    await expectLost(sandbox.exec(request('true'), limit()));
    await expect
      .poll(() => vmm.filter((pid) => parentOf(pid) !== null), {
        timeout: NOTICE_LIMIT_MS,
        message: 'processes that outlived their keeper',
      })
      .toEqual([]);
    await expectOver(key);
    const next = { ...key, generation: 1 };
    const { exit, stdout } = await run(await launch(next), request('echo', ['again']));
    expect({ ...exit, stdout: stdout.toString() }).toMatchObject({ reason: 'exited', exitCode: 0, stdout: 'again\n' });
    await host.backend.release(next);
  });

  it(
    'while its guest downloads through the door: the server sees the connection end',
    { timeout: 180_000 },
    async () => {
      let sentBytes = 0;
      let hasEnded: () => void = () => undefined;
      const ended = new Promise<void>((resolve) => (hasEnded = resolve));
      const server = createServer({ allowHalfOpen: true }, (socket) => {
        const block = Buffer.alloc(64 * 1024);
        const more = (): void => {
          while (!socket.destroyed && socket.write(block)) sentBytes += block.length;
        };
        socket
          .on('error', () => undefined)
          .on('close', () => hasEnded())
          .on('drain', more);
        more();
      });
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      try {
        const { port } = server.address() as AddressInfo;
        const key = newKey();
        const services = [{ name: 'web', host: '127.0.0.1', port }];
        const egress = { allow: [], deny: [], services };
        const sandbox = await host.backend.launch(key, { ...SMALL_VM, egress }, limit());
        const exec = await sandbox.exec(script(`nc web ${port} > /dev/null`), limit());
        const end = exec.wait(limit());
        end.catch(() => undefined);
        // This is more than all buffers on the way hold, so bytes have reached the program.
        await expect.poll(() => sentBytes, { timeout: 60_000 }).toBeGreaterThan(32 * 1024 * 1024);
        await killKeeper(key);
        await expectLost(end);
        await ended;
        await expectOver(key);
      } finally {
        server.close();
      }
    },
  );

  it('while files go in and come out', { timeout: 180_000 }, async () => {
    const key = newKey();
    const sandbox = await launch(key);
    let isStarted = false;
    async function* endless(): AsyncGenerator<Uint8Array> {
      for (;;) {
        yield Buffer.alloc(64 * 1024);
        isStarted = true;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }
    const put = sandbox.writeFile('/workspace/big', 1024 * 1024 * 1024, endless(), limit());
    put.catch(() => undefined);
    while (!isStarted) await new Promise((resolve) => setTimeout(resolve, 20));
    await killKeeper(key);
    await expectLost(put);
    await expectOver(key);
  });
});

describe('a driver that is stopped', () => {
  it('blocks no other driver: the next one takes over, and the old one is fenced', { timeout: 180_000 }, async () => {
    const key = newKey();
    const first = await launch(key);
    const wanted = script('i=0; while [ $i -lt 30 ]; do echo line $i; i=$((i+1)); sleep 0.1; done; cat', {
      stdin: {
        sizeBytes: 4,
        open: async function* (offset) {
          yield Buffer.from('done').subarray(offset);
        },
      },
    });
    first.detach();
    // A second process acts as another worker: it starts the command, reads its output, and sends no input.
    const zombie = startDriver(vmRunDir(host.vmsDir, key), wanted.key, wanted.args[1] as string);
    try {
      await zombie.line('reading');
      process.kill(zombie.child.pid as number, 'SIGSTOP');
      const second = await launch(key);
      const exec = await second.exec(wanted, limit());
      expect(exec.attached).toBe(true);
      const [stdout, exit] = await Promise.all([collect(exec.output('stdout', 0, limit())), exec.wait(limit())]);
      expect(exit).toMatchObject({ reason: 'exited', exitCode: 0 });
      expect(stdout.toString()).toBe(`${Array.from({ length: 30 }, (_, index) => `line ${index}\n`).join('')}done`);
      process.kill(zombie.child.pid as number, 'SIGCONT');
      expect(await zombie.line('renewed')).toContain('fence/stale');
    } finally {
      zombie.child.kill('SIGKILL');
      await host.backend.release(key);
    }
  });

  it('a keeper that is stopped is ended by release all the same', { timeout: 120_000 }, async () => {
    const key = newKey();
    const sandbox = await launch(key);
    process.kill(await keeperPid(key), 'SIGSTOP');
    await host.backend.release(key);
    sandbox.detach();
    await expectOver(key);
  });
});

interface Driver {
  readonly child: ChildProcess;
  /** Returns the first line that begins with a word. */
  line(word: string): Promise<string>;
}

/**
 * Starts a client of the documented API in another process. It attaches, starts a command, reads its output, and renews
 * its lease after SIGCONT.
 */
function startDriver(dir: string, execKey: string, text: string): Driver {
  const code = `
    const { connect } = require('node:net');
    const [dir, execKey, text] = process.argv.slice(1);
    process.chdir(dir);
    const ask = (socket, request) => new Promise((resolve) => {
      let held = '';
      const onData = (chunk) => { held += chunk; const end = held.indexOf('\\n'); if (end !== -1) { socket.off('data', onData); resolve(JSON.parse(held.slice(0, end))); } };
      socket.on('data', onData);
      socket.write(JSON.stringify({ v: 1, id: 1, ...request }) + '\\n');
    });
    (async () => {
      const control = connect('k.sock');
      const { ok: { fence } } = await ask(control, { op: 'attach' });
      await ask(control, { op: 'exec.start', fence, execKey, program: 'sh', args: ['-c', text], env: {}, cwd: '/workspace', uid: 1000, gid: 1000, stdinBytes: 4, timeoutMs: 60000, maxOutputBytes: 1000000 });
      const input = connect('k.sock');
      await ask(input, { op: 'exec.stdin', fence, execKey, offset: 0 });
      const output = connect('k.sock');
      output.on('error', () => undefined);
      input.on('error', () => undefined);
      await ask(output, { op: 'exec.output', fence, execKey, stream: 'stdout', offset: 0 });
      console.log('reading');
      setInterval(async () => {
        const answer = await ask(control, { op: 'renew', fence });
        if (answer.error) { console.log('renewed ' + JSON.stringify(answer)); process.exit(0); }
      }, 100);
    })();`;
  const child = spawn(process.execPath, ['-e', code, dir, execKey, text], { stdio: ['ignore', 'pipe', 'inherit'] });
  let seen = '';
  const waiting = new Set<() => void>();
  child.stdout?.on('data', (chunk: Buffer) => {
    seen += chunk.toString();
    for (const wake of waiting) wake();
  });
  return {
    child,
    async line(word) {
      for (;;) {
        const found = seen.split('\n').find((line) => line.startsWith(word));
        if (found !== undefined) return found;
        await new Promise<void>((resolve, reject) => {
          waiting.add(resolve);
          setTimeout(
            () => reject(new Error(`the other driver did not say ${word}; it said ${JSON.stringify(seen)}`)),
            60_000,
          ).unref();
        });
      }
    },
  };
}
