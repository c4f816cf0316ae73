/** The disk of the state folder is full: VMs wait for room, commands report it, and all runs continue automatically. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { SmallDisk } from '../rig/vms/small-disk.ts';
import { Rig, until } from './rig.ts';
import { countedOnce, counting, sleeping, writing } from './specs.ts';

const DISK_MIB = 200;
const FILES = 60;

interface StatusJson {
  readonly disk: {
    readonly isLow: boolean;
    readonly waiting: readonly { readonly vmKey: string; readonly limitMs: number }[];
  } | null;
}

async function diskOf(rig: Rig, runId: string): Promise<StatusJson['disk']> {
  const { stdout } = await rig.cli('status', runId, '--json');
  return (JSON.parse(stdout) as StatusJson).disk;
}

test.concurrent('a stage on a full disk waits, reports it, and prints every line once when there is room', async () => {
  await using rig = new Rig();
  using disk = new SmallDisk(rig.stateDir, DISK_MIB);
  await rig.launch(rig.spec('spec.yaml', writing(FILES)), 'full');
  await rig.launch(rig.spec('other.yaml', counting(10_000, 0.1)), 'other');
  await rig.waitOutput('other', 'count', 'line 5\n');
  await rig.waitOutput('full', 'write', 'line 5\n');
  expect(await diskOf(rig, 'full')).toMatchObject({ isLow: false, waiting: [] });

  const stack = await rig.liveStack();
  disk.fill();
  // Its supervisor has to start it again, and to report this, before anything gives room.
  rig.kill(stack.serverPid);
  const waiting = await until(
    'the VM to wait for room',
    60_000,
    async () => (await diskOf(rig, 'full'))?.waiting[0] ?? null,
    500,
  );
  expect(waiting).toMatchObject({ vmKey: 'full/_shared/0', limitMs: 3_600_000 });
  expect((await rig.cli('status', 'full')).stdout).toMatch(
    /the disk is full: vm full\/_shared\/0 has waited .* for space; it continues automatically/,
  );
  expect((await rig.cli('runs')).stdout).toMatch(/are free on the disk of .*: no VM is started with less than 10 MiB/);
  expect((await rig.cli('ps')).stdout).toContain('the disk is full: vm full/_shared/0');
  const doctor = await rig.cli('doctor');
  expect(doctor.stdout).toContain('runs cannot start');
  // Room for the probe of a block may be left, or not.
  expect(doctor.stdout).toMatch(/free space on that disk/i);
  expect(doctor.code).toBe(3);

  // A worker that dies now is followed by a worker that starts on a full disk. A run that starts now gets no VM.
  const before = await rig.liveStack(60_000);
  expect(before.supervisorPid).toBe(stack.supervisorPid);
  rig.kill(before.workerPid);
  await until('the next worker', 60_000, () => {
    const stack = rig.stack();
    return stack !== null && stack.workerPid !== before.workerPid;
  });
  await rig.launch(rig.spec('late.yaml', sleeping(0)), 'late');

  // The ballast keeps room for the end of a run that is cancelled on the full disk.
  await until(
    'the other VM to be stopped too',
    60_000,
    async () => (await diskOf(rig, 'other'))?.waiting[0] ?? null,
    500,
  );
  await rig.cli('cancel', 'other');
  expect((await rig.finish('other', 60_000)).outcome.state).toBe('cancelled');
  await sleep(15_000);
  expect((await diskOf(rig, 'full'))?.waiting).toHaveLength(1);
  expect(rig.keepers().map(({ vmKey }) => vmKey)).toEqual(['full/_shared/0']);

  disk.makeRoom();
  expect((await rig.finish('full')).outcome.state).toBe('succeeded');
  expect(await rig.output('full', 'write')).toBe(countedOnce(FILES));
  expect((await rig.finish('late')).outcome.state).toBe('succeeded');
  const events = await rig.events('full');
  expect(events.filter(({ body }) => body.type === 'vm-ready' || body.type === 'vm-lost')).toHaveLength(1);
  const attached = events.flatMap(({ body }) => (body.type === 'stage-reattached' ? [body.reason] : []));
  expect(attached.length).toBeGreaterThan(0);
  expect(attached.every((reason) => reason !== undefined && reason !== '')).toBe(true);
  expect((await rig.cli('doctor')).stdout).toContain('runs can start');
  await rig.assertNothingLeft();
});

// Beside the first one, which mostly waits.
describe.concurrent('on a full disk,', () => {
  test.sequential('a disk that stays full ends the stage with a code of its own, and no other VM starts', async () => {
    await using rig = new Rig({ VOIDBOX_DISK_FULL_LIMIT_MS: '4000' });
    using disk = new SmallDisk(rig.stateDir, DISK_MIB);
    await rig.launch(rig.spec('spec.yaml', writing(FILES)), 'given-up');
    await rig.waitOutput('given-up', 'write', 'line 5\n');
    disk.fill();
    const { outcome } = await rig.finish('given-up');
    expect(outcome).toMatchObject({ state: 'failed', failedStage: 'write', failure: { code: 'host/disk-full' } });
    const types = (await rig.events('given-up')).map(({ body }) => body.type);
    expect(types.filter((type) => type === 'vm-ready')).toHaveLength(1);
    expect(types).not.toContain('vm-lost');
    expect((await rig.cli('status', 'given-up')).stdout).toContain('had no free space for 4 s');
    disk.makeRoom();
    await rig.assertNothingLeft();
  });

  test.sequential('a stack without room to start reports it, prune makes room, and the stack then starts', async () => {
    await using rig = new Rig();
    using disk = new SmallDisk(rig.stateDir, DISK_MIB);
    disk.fill();
    const { code, stderr } = await rig.cli('run', rig.spec('spec.yaml', sleeping(0)));
    expect(stderr).toContain('the embedded stack ended');
    expect(stderr).toMatch(/Free space on the disk of .*, which has 0 B free/);
    expect(code).toBe(3);
    expect((await rig.cli('prune')).code).toBe(0);
    disk.makeRoom();
    expect(await rig.cli('up')).toMatchObject({ code: 0 });
    await rig.assertNothingLeft();
  });
});
