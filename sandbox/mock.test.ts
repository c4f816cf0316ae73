import { createReadStream, mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, test } from 'vitest';
import { BEHAVIOURS } from '../test/conformance/sandbox.ts';
import { createConformanceRig, type ConformanceRig } from '../test/conformance/sandbox/rig.ts';
import { limit, request, run } from '../test/conformance/sandbox/behaviour.ts';
import { createMockBackend } from './mock/backend.ts';
import { REMEMBERED_MS } from './mock/ended-vms.ts';
import type { LaunchSpec } from '../activities/ports/sandbox.ts';

const PLAN: LaunchSpec = { mode: 'mock', isolation: 'none', memoryMib: 64, vcpus: 1, diskMib: 64, mounts: [] };
const KEY = { runId: 'run', scope: 'scope', instance: [], generation: 0 };

describe('the mock keeps the port’s promises', () => {
  let rig: ConformanceRig;
  beforeAll(async () => {
    rig = await createConformanceRig(createMockBackend(), 'mock');
  });
  afterEach(() => rig.clear());
  afterAll(() => rig.dispose());

  it.for(
    BEHAVIOURS.filter((behaviour) => behaviour.guest === 'any').map(
      (behaviour) => [behaviour.name, behaviour] as const,
    ),
  )('%s', { timeout: 30_000 }, async ([, behaviour]) => {
    await behaviour.run(rig);
  });
});

test.each(['no tar at all'.padEnd(1024, '.'), '\0'.repeat(8 * 1024)])(
  'a source of an archive is closed if the archive breaks or ends before it',
  async (archive) => {
    const rig = await createConformanceRig(createMockBackend(), 'mock');
    const path = join(mkdtempSync(join(tmpdir(), 'voidbox-mock-')), 'in.tar');
    writeFileSync(path, archive.repeat(100));
    const opened = (): number =>
      readdirSync('/proc/self/fd').filter((fd) => {
        try {
          return readlinkSync(join('/proc/self/fd', fd)) === path;
        } catch {
          return false;
        }
      }).length;
    const source = createReadStream(path, { highWaterMark: 512 });
    const sandbox = await rig.shared();
    await sandbox.putTar('/workspace/in', source, limit()).catch(() => undefined);
    await expect.poll(opened).toBe(0);
    await rig.dispose();
    rmSync(dirname(path), { recursive: true });
  },
);

describe('the mock pretends nothing', () => {
  it('has no shell, and says what it has', async () => {
    const sandbox = await createMockBackend().launch(KEY, PLAN, limit());
    const { exit } = await run(sandbox, request('sh', ['-c', 'echo hi']));
    expect(exit).toMatchObject({ reason: 'cannot-start', exitCode: 127, stdoutBytes: 0 });
    expect(exit.message).toContain('mode: mock');
    expect(exit.message).toContain('echo');
  });

  it.for([
    ['printf', ['%x', '12']],
    ['tr', ['[:lower:]', 'A-Z']],
    ['tee', ['-a', 'x']],
    ['sleep', ['1h']],
    ['env', ['FOO=1', 'true']],
  ] as const)('refuses arguments that it does not simulate: %s %j', async ([program, args]) => {
    const { exit, stderr } = await run(await createMockBackend().launch(KEY, PLAN, limit()), request(program, args));
    expect(exit.exitCode).toBe(2);
    expect(stderr.toString()).toContain('(mock)');
  });

  it('runs programs that a test provides, and loses VMs when a test calls `lose`', async () => {
    const backend = createMockBackend({
      programs: {
        fail: async ({ files, write }) => {
          files.write('/workspace/left', Buffer.from('x'));
          await write('stderr', 'broken\n');
          return 7;
        },
      },
    });
    const sandbox = await backend.launch(KEY, PLAN, limit());
    expect((await run(sandbox, request('fail'))).exit.exitCode).toBe(7);
    expect((await sandbox.readFile('/workspace/left', limit()))?.sizeBytes).toBe(1);
    const exec = await sandbox.exec(request('sleep', ['60']), limit());
    backend.lose(KEY);
    await expect(exec.wait(limit())).rejects.toMatchObject({ code: 'vm/lost' });
    await expect(backend.launch(KEY, PLAN, limit())).rejects.toMatchObject({ code: 'vm/lost' });
    expect(backend.alive()).toEqual([]);
  });

  it('remembers for 15 minutes that a VM has ended', async () => {
    let nowMs = 0;
    const backend = createMockBackend({ now: () => nowMs });
    for (let run = 0; run < 20; run += 1) {
      const key = { ...KEY, runId: `run-${run}` };
      await backend.launch(key, PLAN, limit());
      await backend.release(key);
      await expect(backend.launch(key, PLAN, limit())).rejects.toMatchObject({ code: 'vm/lost' });
    }
    expect(backend.remembered()).toBe(20);
    nowMs += REMEMBERED_MS + 1;
    await backend.release({ ...KEY, runId: 'later' });
    expect(backend.remembered()).toBe(1);
  });
});
