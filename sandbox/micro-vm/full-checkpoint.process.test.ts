/** Checkpoints with memory of a VM whose keeper is a script of the test. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished, expect, test } from 'vitest';
import type { CheckpointTarget, Sandbox, SandboxFacts } from '../../activities/ports/sandbox.ts';
import { deleteCheckpoint, linkCheckpoint, replaceRecord } from '../checkpoints/folder.ts';
import { answer, fakeKeeper, launchFake, soon, STATUS, useFakeKeepers } from '../../test/rig/vms/fake-keeper.ts';
import { createFullSaver } from './full-checkpoint.ts';
import { createMicroVmSandbox } from './sandbox.ts';

useFakeKeepers();

const FACTS = { fence: 7 } as SandboxFacts;
const DISK = { diskMib: 64, vmm: 'vmm', root: null, kernelKind: 'debian' };
const SIZE = { memoryMib: 128, vcpus: 1, hasMounts: false };

const nameState = (count: number): string => String(count).padStart(32, '0');

/** A VM whose keeper writes files that name the save. `parent` is the state to which the keeper says that a diff refers. */
async function openVm(
  parentOf = (count: number): string => nameState(count - 1),
): Promise<{ readonly sandbox: Sandbox; readonly folder: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'voidbox-full-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  let count = 0;
  const keeper = await fakeKeeper({
    status: (request, socket) => answer(socket, request, { ...STATUS, features: ['checkpoint.full'] }),
    'checkpoint.full': (request, socket) => {
      count += 1;
      const dest = String(request['dest']);
      mkdirSync(dest, { mode: 0o700 });
      for (const name of ['state', 'memory', 'disk'])
        writeFileSync(join(dest, name), `${name} ${count}`, { mode: 0o600 });
      const parent = request['pages'] === 'all' ? null : parentOf(count);
      answer(socket, request, {});
      answer(socket, request, {
        id: nameState(count),
        parent,
        links: count,
        usedBytes: 100,
        pausedMs: 1,
        way: 'sparse',
      });
    },
  });
  const vm = await launchFake(keeper);
  const sandbox = createMicroVmSandbox(vm, FACTS, DISK, {}, () => undefined, createFullSaver(vm, SIZE, null));
  return { sandbox, folder };
}

const read = (dir: string, name: string): string => readFileSync(join(dir, name), 'utf8');

test('a difference has all files of its chain, also after the folder of its base was deleted', async () => {
  const { sandbox, folder } = await openVm();
  const save = (name: string, memory: CheckpointTarget['memory']): ReturnType<Sandbox['checkpoint']> =>
    sandbox.checkpoint({ dir: join(folder, name), withSecrets: false, memory }, soon());
  await expect(save('early', 'changed')).rejects.toMatchObject({ code: 'vm/checkpoint-failed' });
  expect((await save('base', 'all')).memory).toEqual({ ...SIZE, links: [nameState(1)] });
  const diff = await save('diff', 'changed');
  expect(diff.memory?.links).toEqual([nameState(1), nameState(2)]);
  // The files of the base count for each checkpoint that has them.
  expect(diff.usedBytes).toBeGreaterThan(100);
  await deleteCheckpoint(join(folder, 'base'));
  await linkCheckpoint(join(folder, 'diff'), join(folder, 'copy'));
  await deleteCheckpoint(join(folder, 'diff'));
  const copy = join(folder, 'copy');
  const names = ['checkpoint.json', 'disk', 'memory-0', 'memory-1', 'state-0', 'state-1'];
  expect(readdirSync(copy).toSorted()).toEqual(names);
  expect(['memory-0', 'memory-1', 'state-1', 'disk'].map((name) => read(copy, name))).toEqual([
    'memory 1',
    'memory 2',
    'state 2',
    'disk 2',
  ]);
});

test('a difference to a state that has no folder is refused and leaves nothing, and so is the next one', async () => {
  const { sandbox, folder } = await openVm(() => nameState(9));
  const save = (name: string, memory: CheckpointTarget['memory']): ReturnType<Sandbox['checkpoint']> =>
    sandbox.checkpoint({ dir: join(folder, name), withSecrets: false, memory }, soon());
  await save('base', 'all');
  for (const name of ['wrong', 'next'])
    await expect(save(name, 'changed')).rejects.toMatchObject({ code: 'vm/checkpoint-failed' });
  expect(readdirSync(folder)).toEqual(['base']);
  await save('other', 'all');
});

test('a difference fits to the merge of the chain from which its VM continues', async () => {
  const { sandbox, folder } = await openVm();
  const save = (name: string, memory: CheckpointTarget['memory']): ReturnType<Sandbox['checkpoint']> =>
    sandbox.checkpoint({ dir: join(folder, name), withSecrets: false, memory }, soon());
  await save('base', 'all');
  const { memory, ...rest } = await save('diff', 'changed');
  const diff = join(folder, 'diff');
  for (const name of ['state', 'memory']) {
    writeFileSync(join(diff, `${name}-2`), `merged ${name}`);
    for (const number of [0, 1]) rmSync(join(diff, `${name}-${number}`));
  }
  await replaceRecord(diff, { ...rest, memory: { ...memory!, links: [nameState(2)], firstFile: 2 } });
  const next = await save('next', 'changed');
  expect(next.memory).toEqual({ ...SIZE, links: [nameState(2), nameState(3)] });
  const names = ['state-0', 'memory-0', 'state-1', 'memory-1'];
  expect(names.map((name) => read(join(folder, 'next'), name))).toEqual([
    'merged state',
    'merged memory',
    'state 3',
    'memory 3',
  ]);
});

test('a ninth link is refused before the save, and the error names a merge and a save of all memory', async () => {
  const { sandbox, folder } = await openVm();
  const save = (name: string, memory: CheckpointTarget['memory']): ReturnType<Sandbox['checkpoint']> =>
    sandbox.checkpoint({ dir: join(folder, name), withSecrets: false, memory }, soon());
  await save('1', 'all');
  for (let link = 2; link <= 8; link += 1) await save(String(link), 'changed');
  await expect(save('9', 'changed')).rejects.toMatchObject({
    code: 'vm/checkpoint-failed',
    message: expect.stringMatching(/8 links.*save all memory.*voidbox snapshot merge/) as string,
  });
  expect(readdirSync(folder)).not.toContain('9');
  expect((await save('again', 'all')).memory?.links).toEqual([nameState(9)]);
});

test('a VM without permission is not saved with its memory', async () => {
  const keeper = await fakeKeeper({});
  const sandbox = createMicroVmSandbox(await launchFake(keeper), FACTS, DISK, {}, () => undefined);
  const target = { dir: '/nowhere', withSecrets: false, memory: 'all' } as const;
  await expect(sandbox.checkpoint(target, soon())).rejects.toMatchObject({ code: 'vm/checkpoint-failed' });
});
