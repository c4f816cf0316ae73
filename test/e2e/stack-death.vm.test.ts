/** The server, the supervisor, or everything at once dies; runs continue. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { countedOnce, counting, sleeping } from './specs.ts';
import { isAlive, Rig, until } from './rig.ts';

test.concurrent('the server is away for 10 s while the worker lives', async () => {
  await using rig = new Rig();
  await rig.launch(rig.spec('spec.yaml', counting(250, 0.1)), 'server-away');
  await rig.waitOutput('server-away', 'count', 'line 20\n');
  const stack = await rig.liveStack();
  rig.pause(stack.supervisorPid);
  rig.kill(stack.serverPid);
  await sleep(10_000);
  rig.wake(stack.supervisorPid);
  expect((await rig.finish('server-away')).outcome.state).toBe('succeeded');
  expect(await rig.output('server-away', 'count')).toBe(countedOnce(250));
  await rig.assertNothingLeft();
});

// Runs next to the first test, which mostly waits.
describe.concurrent('beside that,', () => {
  test.sequential('the supervisor dies while someone follows: its processes go with it, the follower brings a new one up', async () => {
    await using rig = new Rig();
    const run = rig.start('run', rig.spec('spec.yaml', counting(150, 0.1)), '--run-id', 'supervisor');
    await rig.waitOutput('supervisor', 'count', 'line 20\n');
    const stack = await rig.liveStack();
    rig.kill(stack.supervisorPid);
    await until('its processes to end', 30_000, () => !isAlive(stack.serverPid) && !isAlive(stack.workerPid));
    const result = await run.done;
    expect(result.code).toBe(0);
    expect((await rig.finish('supervisor')).outcome.state).toBe('succeeded');
    expect(await rig.output('supervisor', 'count')).toBe(countedOnce(150));
    await rig.assertNothingLeft();
  });

  test.sequential('supervisor, server, worker, keeper and VM die at once: the next command brings the run to its end', async () => {
    await using rig = new Rig();
    await rig.launch(rig.spec('spec.yaml', sleeping(5)), 'everything');
    await rig.waitOutput('everything', 'sleep', 'begun');
    const stack = await rig.liveStack();
    const keepers = rig.keepers();
    expect(keepers).toHaveLength(1);
    for (const pid of [stack.supervisorPid, stack.serverPid, stack.workerPid, ...keepers.map(({ pid }) => pid)])
      if (isAlive(pid)) rig.kill(pid);
    await until(
      'all to be dead',
      5_000,
      () => ![stack.supervisorPid, stack.serverPid, stack.workerPid].some(isAlive) && rig.keepers().length === 0,
    );
    expect((await rig.cli('up')).code).toBe(0);
    expect((await rig.finish('everything')).outcome.state).toBe('succeeded');
    const events = await rig.events('everything');
    expect(events.filter(({ body }) => body.type === 'vm-lost')).toHaveLength(1);
    expect(events.filter(({ body }) => body.type === 'run-resumed').length).toBeGreaterThan(0);
    await rig.assertNothingLeft();
  });

  test.sequential('two terminals start runs at once and share one stack', async () => {
    await using rig = new Rig();
    const spec = rig.spec('spec.yaml', sleeping(1));
    const [first, second] = [rig.start('run', spec, '--run-id', 'first'), rig.start('run', spec, '--run-id', 'second')];
    const results = await Promise.all([first.done, second.done]);
    expect(results.map(({ code }) => code)).toEqual([0, 0]);
    expect(results.map(({ stdout }) => stdout.includes('ended'))).toEqual([true, true]);
    expect(rig.processes().filter(({ command }) => command.includes('start-dev'))).toHaveLength(1);
    await rig.assertNothingLeft();
  });
});
