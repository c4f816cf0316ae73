/** The worker dies with SIGKILL at each place where it hurts; the command runs once and no byte is lost or doubled. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { countedOnce, counting } from './specs.ts';
import { until } from './rig.ts';
import { useRig } from './shared-rig.ts';

const theRig = useRig();

test('in mid-stage: the next worker attaches again, and nothing runs twice', async () => {
  const rig = theRig();
  await rig.launch(rig.spec('spec.yaml', counting(100, 0.1)), 'mid-stage');
  await rig.waitOutput('mid-stage', 'count', 'line 20\n');
  const before = await rig.liveStack();
  rig.kill(before.workerPid);
  const finished = await rig.finish('mid-stage');
  expect(finished.outcome.state).toBe('succeeded');
  expect(await rig.output('mid-stage', 'count')).toBe(countedOnce(100));
  expect((await rig.eventOf('mid-stage', 'stage-reattached')).stage).toBe('count');
  expect((await rig.liveStack()).workerPid).not.toBe(before.workerPid);
});

test('between the spawn of the VM and the first heartbeat', async () => {
  const rig = theRig();
  await rig.cli('up');
  const { workerPid } = await rig.liveStack();
  const launched = rig.launch(rig.spec('spec.yaml', counting(20, 0.05)), 'at-spawn');
  await until('the VM to be spawned', 60_000, () => rig.keepers().length > 0, 2);
  rig.kill(workerPid);
  await launched;
  expect((await rig.finish('at-spawn')).outcome.state).toBe('succeeded');
  expect(await rig.output('at-spawn', 'count')).toBe(countedOnce(20));
  const ready = (await rig.events('at-spawn')).filter(({ body }) => body.type === 'vm-ready');
  expect(ready.map(({ body }) => body.type === 'vm-ready' && body.generation)).toEqual([0]);
});

test("between the command's end and its durable result", async () => {
  const rig = theRig();
  await rig.launch(rig.spec('spec.yaml', counting(30, 0.1)), 'before-result');
  await rig.waitOutput('before-result', 'count', 'line 5\n');
  const { workerPid } = await rig.liveStack();
  const keeper = await rig.keeperOf((await rig.eventOf('before-result', 'vm-ready')).scope);
  rig.pause(workerPid);
  await until("the command's end", 30_000, () => rig.execRecords(keeper).some((record) => record['state'] === 'ended'));
  rig.kill(workerPid);
  expect((await rig.finish('before-result')).outcome.state).toBe('succeeded');
  expect(await rig.output('before-result', 'count')).toBe(countedOnce(30));
});

test('between the durable result and its report to the server', async () => {
  const rig = theRig();
  await rig.launch(rig.spec('spec.yaml', counting(30, 0.1)), 'after-result');
  await rig.waitOutput('after-result', 'count', 'line 5\n');
  const { workerPid } = await rig.liveStack();
  const log = join(rig.stateDir, 'runs', 'after-result', 'events.jsonl');
  await until('the durable result', 30_000, () => readFileSync(log, 'utf8').includes('"type":"stage-finished"'), 1);
  rig.kill(workerPid);
  expect((await rig.finish('after-result')).outcome.state).toBe('succeeded');
  expect(await rig.output('after-result', 'count')).toBe(countedOnce(30));
  expect((await rig.events('after-result')).filter(({ body }) => body.type === 'stage-started')).toHaveLength(1);
});

test('a zombie attempt writes nothing after another took over', async () => {
  const rig = theRig();
  await rig.launch(rig.spec('spec.yaml', counting(250, 0.1)), 'zombie');
  await rig.waitOutput('zombie', 'count', 'line 20\n');
  const { workerPid: zombie } = await rig.liveStack();
  rig.pause(zombie);
  {
    // The zombie's silence, not its death, brings the second worker in.
    await using _second = await rig.secondWorker();
    expect((await rig.eventOf('zombie', 'stage-reattached')).stage).toBe('count');
    rig.wake(zombie);
    expect((await rig.finish('zombie')).outcome.state).toBe('succeeded');
  }
  expect(await rig.output('zombie', 'count')).toBe(countedOnce(250));
});
