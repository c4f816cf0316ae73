/** A VM and its keeper die: only that scope is tried again. */
import { expect, test } from 'vitest';
import { counting, sideBySide } from './specs.ts';
import { until } from './rig.ts';
import { useRig } from './shared-rig.ts';

const theRig = useRig();

test('the keeper dies with its VM: that scope starts again, its sibling continues', async () => {
  const rig = theRig();
  await rig.launch(rig.spec('spec.yaml', sideBySide(12)), 'one-lost');
  await until(
    'both boxes to run',
    90_000,
    async () =>
      (await rig.output('one-lost', 'left', 'stderr').catch(() => '')).includes('begun') &&
      (await rig.output('one-lost', 'right', 'stderr')).includes('begun'),
  );
  const left = (await rig.events('one-lost')).find(
    ({ body }) => body.type === 'stage-started' && body.stage === 'left',
  );
  expect(left).toBeDefined();
  const vm = (await rig.events('one-lost')).flatMap(({ body }) =>
    body.type === 'vm-ready' && body.scope.includes('left') ? [body] : [],
  )[0];
  const keeper = await rig.keeperOf(vm!.scope);
  rig.kill(keeper.pid);
  const finished = await rig.finish('one-lost');
  expect(finished.outcome.state).toBe('succeeded');
  const ready = (await rig.events('one-lost')).flatMap(({ body }) =>
    body.type === 'vm-ready' ? [`${body.scope}/${body.generation}`] : [],
  );
  expect(ready.filter((name) => name.includes('left'))).toHaveLength(2);
  expect(ready.filter((name) => name.includes('right'))).toHaveLength(1);
  const merged = JSON.parse(await rig.output('one-lost', 'merge')) as { name: string; output: string }[];
  expect(merged.map(({ name, output }) => [name, output.trim()])).toEqual([
    ['left', 'left'],
    ['right', 'right'],
  ]);
});

/** A client may make such an id: Voidbox escapes it in the VM key, and names its folder by a hash. */
const ODD_ID = `qemu lost: ${'é/'.repeat(300)}`;

test('only QEMU dies: the keeper reports it, the stage is tried again in a new VM', async () => {
  const rig = theRig();
  await rig.launch(rig.spec('spec.yaml', counting(60, 0.1)), ODD_ID);
  await rig.waitOutput(ODD_ID, 'count', 'line 10\n');
  const keeper = rig.keepers()[0]!;
  const qemu = await until('the QEMU process', 30_000, () =>
    rig
      .descendants(keeper.pid)
      .find(
        ({ command }) =>
          command.startsWith('/usr/bin/qemu') || command.startsWith('qemu') || command.includes('/qemu-system-x86_64 '),
      ),
  );
  rig.kill(qemu.pid);
  expect((await rig.finish(ODD_ID)).outcome.state).toBe('succeeded');
  const events = await rig.events(ODD_ID);
  expect(events.filter(({ body }) => body.type === 'vm-lost')).toHaveLength(1);
  expect(events.flatMap(({ body }) => (body.type === 'stage-started' ? [body.attempt] : []))).toHaveLength(2);
});
