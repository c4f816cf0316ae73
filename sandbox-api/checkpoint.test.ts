/** Tests of checkpoints on mocks, in a state folder of their own. */
import { Buffer } from 'node:buffer';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { namePartialFolder } from '../files/partial-folder.ts';
import { grantVariables, withdrawVariables } from '../setup/environment.ts';
import { makeStateFolder } from '../test/rig/runs/state-folder.ts';
import { type Checkpoint, type CheckpointOptions, type LaunchOptions, Sandbox } from './index.ts';

let stateDir: string;
const opened: Sandbox[] = [];
beforeEach(() => {
  stateDir = makeStateFolder(mkdtempSync(join(tmpdir(), 'voidbox-checkpoint-')));
});
afterEach(async () => {
  for (const sandbox of opened.splice(0)) await sandbox.stop();
  rmSync(stateDir, { recursive: true, force: true });
});

async function launch(options: LaunchOptions = {}): Promise<Sandbox> {
  const sandbox = await Sandbox.launch({ mode: 'mock', stateDir, ...options });
  opened.push(sandbox);
  return sandbox;
}

async function prepare(text: string, name?: string): Promise<{ readonly id: string }> {
  const vm = await launch();
  await vm.writeFile('/workspace/file', text);
  return await vm.checkpoint(name === undefined ? {} : { name });
}

async function readFrom(from: string): Promise<string> {
  return String(await (await launch({ from })).readFile('/workspace/file'));
}

test('VMs start from a checkpoint by its name and by the beginning of its id', async () => {
  const { id } = await prepare('named', 'deps');
  const other = await prepare('by id');
  expect(await readFrom('deps')).toBe('named');
  expect(await readFrom(id.slice(0, 10))).toBe('named');
  expect(await readFrom(other.id)).toBe('by id');
  expect(await Sandbox.checkpoints({ stateDir })).toMatchObject([
    { id, name: 'deps', diskMib: 2048, withSecrets: false, madeBy: null },
    { id: other.id, name: null },
  ]);
});

test('a simulated VM has no memory to save, and an unknown value is refused', async () => {
  const vm = await launch();
  await expect(vm.checkpoint({ memory: 'all' })).rejects.toMatchObject({ code: 'vm/checkpoint-failed' });
  await expect(async () => await vm.checkpoint({ memory: 'some' as 'all' })).rejects.toThrow('all or changed');
  await expect(launch({ savesMemory: 1 as unknown as boolean })).rejects.toThrow('true or false');
  expect(await Sandbox.checkpoints({ stateDir })).toEqual([]);
});

test('an unknown and an ambiguous text are refused with the checkpoints that exist', async () => {
  await expect(readFrom('deps')).rejects.toThrow(
    'there is no prepared sandbox "deps" here; this state folder has no prepared sandboxes',
  );
  for (const name of ['one', 'two']) await prepare(name, name);
  // 17 ids have 16 first digits.
  for (let count = 0; count < 15; count++) await prepare(`${count}`);
  await expect(readFrom('deps')).rejects.toThrow(/here; there are one \([0-9a-f]{12}\), two \([0-9a-f]{12}\)/);
  const firsts = (await Sandbox.checkpoints({ stateDir })).map(({ id }) => id[0]!);
  const twice = firsts.find((first, index) => firsts.indexOf(first) !== index)!;
  await expect(readFrom(twice)).rejects.toMatchObject({
    code: 'vm/checkpoint-unfit',
    message: expect.stringContaining(`"${twice}" is the beginning of the id of`),
  });
});

test('a used name is refused unless the checkpoint replaces the older one', async () => {
  const first = await prepare('first', 'deps');
  const vm = await launch();
  await vm.writeFile('/workspace/file', 'second');
  await expect(vm.checkpoint({ name: 'deps' })).rejects.toMatchObject({ code: 'vm/checkpoint-exists' });
  expect(await readFrom('deps')).toBe('first');
  const second = await vm.checkpoint({ name: 'deps', replace: true });
  expect(second.id).not.toBe(first.id);
  expect(await readFrom('deps')).toBe('second');
  expect(readdirSync(join(stateDir, 'prepared'))).toEqual([second.id]);
});

test('the second of two checkpoints that get one name at once fails, also if its clock is behind', async () => {
  const vms = [await launch(), await launch()];
  let now = Date.now();
  const clock = vi.spyOn(Date, 'now').mockImplementation(() => (now -= 10));
  onTestFinished(() => clock.mockRestore());
  const made = await Promise.allSettled(vms.map((vm) => vm.checkpoint({ name: 'deps' })));
  expect(made.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  expect(await Sandbox.checkpoints({ stateDir })).toHaveLength(1);
});

test('a deleted checkpoint is not listed, and VMs that started from it continue', async () => {
  await prepare('kept', 'deps');
  const vm = await launch({ from: 'deps' });
  const [checkpoint] = await Sandbox.checkpoints({ stateDir });
  await checkpoint!.delete();
  await checkpoint!.delete();
  expect(await Sandbox.checkpoints({ stateDir })).toEqual([]);
  expect(String(await vm.readFile('/workspace/file'))).toBe('kept');
  await expect(readFrom('deps')).rejects.toMatchObject({ code: 'vm/checkpoint-unfit' });
});

test('the mark of secrets passes to checkpoints of later VMs, which must confirm it', async () => {
  const vm = await launch();
  expect(await vm.checkpoint({ name: 'secret', withSecrets: true })).toMatchObject({ withSecrets: true });
  const later = await launch({ from: 'secret' });
  await expect(later.checkpoint()).rejects.toMatchObject({ code: 'vm/checkpoint-secrets' });
  expect(await later.checkpoint({ withSecrets: true })).toMatchObject({ withSecrets: true });
  expect(await vm.checkpoint()).toMatchObject({ withSecrets: false });
});

test('without a size of the disk, a VM has at least the size of its checkpoint', async () => {
  const vm = await launch({ diskMib: 4096 });
  await vm.checkpoint({ name: 'large' });
  expect(await (await launch({ from: 'large' })).checkpoint()).toMatchObject({ diskMib: 4096 });
  await expect(launch({ from: 'large', diskMib: 4095 })).rejects.toThrow(
    'its disk has 4096 MiB, that of the VM 4095 MiB; set disk_mb to 4096 or more',
  );
});

test('wrong options are refused with the rule', async () => {
  const vm = await launch();
  for (const name of ['../x', '', '-x', 'none', 'x'.repeat(65)])
    await expect(vm.checkpoint({ name })).rejects.toThrow(/^name is .*, expected 1 to 64 letters/);
  await expect(vm.checkpoint({ replace: 1 as never })).rejects.toThrow('replace is 1, expected true or false');
  await expect(vm.checkpoint({ nam: 'x' } as never)).rejects.toThrow('did you mean "name"');
  await expect(launch({ from: '' })).rejects.toThrow('from is "", expected the name of a checkpoint');
  const stopped = AbortSignal.abort(new Error('enough'));
  await expect(vm.checkpoint({ signal: stopped })).rejects.toThrow('enough');
  expect(await Sandbox.checkpoints({ stateDir })).toEqual([]);
});

describe('with a limit of 1 MiB for all prepared sandboxes', () => {
  beforeEach(() => grantVariables({ VOIDBOX_PREPARED_MAX_MB: '1' }));
  afterEach(() => withdrawVariables(['VOIDBOX_PREPARED_MAX_MB']));

  async function prepareKib(kib: number, options: CheckpointOptions): Promise<Checkpoint> {
    const vm = await launch();
    await vm.writeFile('/workspace/file', Buffer.alloc(kib * 768));
    return await vm.checkpoint(options);
  }

  test('a checkpoint that exceeds it is refused, and those that a user prepared stay', async () => {
    const { id } = await prepareKib(400, { name: 'small' });
    const large = await prepareKib(500, { name: 'large' });
    const shown = large.id.slice(0, 12);
    const listed = `largest first: large (${shown}), small (${id.slice(0, 12)})`;
    await expect(prepareKib(300, { name: 'other' })).rejects.toMatchObject({
      code: 'vm/checkpoint-limit',
      message: `there is no room for its disk of 300 KiB: the other prepared sandboxes use 901 KiB of at most 1.0 MiB; delete some, ${listed}: voidbox snapshot delete ${shown} …, or raise VOIDBOX_PREPARED_MAX_MB`,
    });
    expect(readdirSync(join(stateDir, 'prepared')).sort()).toEqual([id, large.id].sort());
    await large.delete();
    expect(await prepareKib(300, { name: 'other' })).toMatchObject({ name: 'other' });
  });

  test('the one that a checkpoint replaces does not count, and stays if the new one is refused', async () => {
    await prepareKib(700, { name: 'deps' });
    const second = await prepareKib(800, { name: 'deps', replace: true });
    await expect(prepareKib(1_100, { name: 'deps', replace: true })).rejects.toMatchObject({
      code: 'vm/checkpoint-limit',
      message: expect.stringMatching(/use 0 B of at most 1.0 MiB; raise VOIDBOX_PREPARED_MAX_MB$/),
    });
    expect(readdirSync(join(stateDir, 'prepared'))).toEqual([second.id]);
  });

  test('two makers at once never exceed it together', async () => {
    await Promise.allSettled(['a', 'b', 'c'].map((name) => prepareKib(400, { name })));
    const kept = await Sandbox.checkpoints({ stateDir });
    expect(kept.reduce((sum, { usedBytes }) => sum + usedBytes, 0)).toBeLessThanOrEqual(1_048_576);
  });

  test('a full place refuses a checkpoint before its disk is copied, and a damaged one counts', async () => {
    const damaged = join(stateDir, 'prepared', 'a'.repeat(64));
    mkdirSync(damaged, { recursive: true, mode: 0o700 });
    writeFileSync(join(damaged, 'disk'), Buffer.alloc(1_048_576));
    await expect(prepareKib(1, {})).rejects.toThrow(
      'there is no room for it: the other prepared sandboxes use 1.0 MiB of at most 1.0 MiB; delete the damaged ones that `voidbox snapshot list` names, or raise',
    );
  });
});

test('folders of dead writers are removed at once, and those of other containers after an hour', async () => {
  const prepared = join(stateDir, 'prepared');
  mkdirSync(prepared, { mode: 0o700 });
  const own = basename(namePartialFolder(join(prepared, 'x')));
  const other = own.replace(/^x\.[0-9a-f]{12}/, `x.${'0'.repeat(12)}`);
  const dead = own.replace(/-(\d+)\.([0-9a-f]{12})\.partial$/, '-1.$2.partial');
  const old = `old-${other}`;
  for (const name of [own, other, dead, old]) mkdirSync(join(prepared, name));
  const hourAgoS = Date.now() / 1000 - 3_700;
  for (const name of [own, old]) utimesSync(join(prepared, name), hourAgoS, hourAgoS);
  const { id } = await prepare('text', 'deps');
  expect(readdirSync(prepared).sort()).toEqual([own, other, id].sort());
});

test('folders of killed writers are removed after an hour, and other entries are ignored', async () => {
  const prepared = join(stateDir, 'prepared');
  mkdirSync(prepared, { mode: 0o700 });
  for (const name of ['old.partial', 'new.partial', 'a'.repeat(64), 'notes']) mkdirSync(join(prepared, name));
  const hourAgoS = Date.now() / 1000 - 3_700;
  utimesSync(join(prepared, 'old.partial'), hourAgoS, hourAgoS);
  writeFileSync(join(prepared, 'a'.repeat(64), 'checkpoint.json'), '{');
  const { id } = await prepare('text', 'deps');
  expect(readdirSync(prepared).sort()).toEqual(['a'.repeat(64), id, 'new.partial', 'notes'].sort());
  expect(await Sandbox.checkpoints({ stateDir })).toHaveLength(1);
});
