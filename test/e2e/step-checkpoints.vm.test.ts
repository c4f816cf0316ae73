/** The VM of a workflow that is saved after each step is killed, or its run is retried: only later steps run again. */
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { namesIn, soon, vmmsBelow } from '../rig/vms/snapshot-folder.ts';
import type { Rig } from './rig.ts';
import { useRig } from './shared-rig.ts';

const theRig = useRig();

/** Six steps that each add a line to a file of the VM; the fifth is slow. */
const SPEC = `api_version: v1
kind: workflow
name: six
sandbox: { memory_mb: 256 }
workflow:
  checkpoint: each-step
  steps:
${['a', 'b', 'c', 'd', 'e', 'f']
  .map((step, index, steps) => {
    const after = index === 0 ? '' : `, depends_on: [${steps[index - 1]!}]`;
    const work = step === 'e' ? 'echo begun; sleep 6; ' : '';
    return `    - { name: ${step}${after}, run: { program: sh, args: [-c, "${work}echo ${step} >> /workspace/steps; echo ${step} >> $HOME/steps; cat /workspace/steps; cmp /workspace/steps $HOME/steps"] } }`;
  })
  .join('\n')}
`;

async function untilFifth(rig: Rig, runId: string): Promise<void> {
  await rig.launch(rig.spec('spec.yaml', SPEC), runId);
  await rig.waitOutput(runId, 'e', 'begun\n');
}

async function startsOf(rig: Rig, runId: string): Promise<readonly string[]> {
  return (await rig.events(runId)).flatMap(({ body }) =>
    body.type === 'stage-started' ? [`${body.stage} ${body.attempt}`] : [],
  );
}

const ONCE = ['a 1', 'b 1', 'c 1', 'd 1'];

test('the VM is killed in the fifth of six steps: only the fifth runs again', async () => {
  const rig = theRig();
  await untilFifth(rig, 'saved');
  rig.kill(rig.keepers()[0]!.pid);
  expect((await rig.finish('saved')).outcome.state).toBe('succeeded');
  expect(await startsOf(rig, 'saved')).toEqual([...ONCE, 'e 1', 'e 2', 'f 1']);
  expect(await rig.output('saved', 'f')).toBe('a\nb\nc\nd\ne\nf\n');
  const ready = (await rig.events('saved')).flatMap(({ body }) => (body.type === 'vm-ready' ? [body] : []));
  expect(ready).toMatchObject([{ generation: 0 }, { generation: 1, resumedAfter: 'd' }]);
  expect(existsSync(join(rig.stateDir, 'runs/saved/checkpoints/.ended'))).toBe(true);
});

test('worker, keeper and VM are killed in the fifth step: the next worker repeats only the fifth', async () => {
  const rig = theRig();
  await untilFifth(rig, 'both');
  const { workerPid } = await rig.liveStack();
  rig.kill(workerPid);
  rig.kill(rig.keepers()[0]!.pid);
  expect((await rig.finish('both')).outcome.state).toBe('succeeded');
  expect(await startsOf(rig, 'both')).toEqual([...ONCE, 'e 1', 'e 2', 'f 1']);
  expect(await rig.output('both', 'f')).toBe('a\nb\nc\nd\ne\nf\n');
});

const STEPS = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'];

/** Steps that each add a line to a file. The first one also fills the disk, so that each save takes a while. */
const SAVED_SLOWLY = `api_version: v1
kind: workflow
name: slow
sandbox: { memory_mb: 256 }
workflow:
  checkpoint: each-step
  steps:
${STEPS.map((step, index) => {
  const after = index === 0 ? '' : `, depends_on: [${STEPS[index - 1]!}]`;
  const fill = index === 0 ? 'head -c 48000000 /dev/zero > $HOME/filled; ' : '';
  return `    - { name: ${step}${after}, run: { program: sh, args: [-c, "${fill}echo ${step} >> /workspace/steps; cat /workspace/steps"] } }`;
}).join('\n')}
`;

/** Waits for a save of the run after the ones that were seen, and stops these processes in it. Returns the number of its checkpoint. */
async function stopInSave(rig: Rig, runId: string, seen: number, processes: () => readonly number[]): Promise<number> {
  const dir = join(rig.stateDir, 'runs', runId, 'checkpoints/_shared');
  const findSave = (): number | undefined =>
    namesIn(dir)
      .filter((name) => name.endsWith('.partial') && !name.endsWith('.json.partial'))
      .map((name) => Number.parseInt(name))
      .find((number) => number > seen);
  return await soon(`a save of ${runId} after checkpoint ${seen}`, () => {
    const number = findSave();
    if (number === undefined) return null;
    const pids = processes();
    for (const pid of pids) rig.pause(pid);
    if (findSave() === number) return number;
    // The save ended before the processes stopped.
    for (const pid of pids) rig.wake(pid);
    return null;
  });
}

test('each process is killed while a step is saved: no half of a checkpoint is used, and only unsaved steps run again', async () => {
  const rig = theRig();
  await rig.launch(rig.spec('slow.yaml', SAVED_SLOWLY), 'slow');
  const keeper = (): number => rig.keepers()[0]!.pid;
  const unsaved: string[] = [];
  let seen = 0;
  for (const killed of ['worker', 'keeper', 'supervisor', 'both', 'vmm'] as const) {
    const { workerPid, supervisorPid } = await rig.liveStack();
    const ofKind = {
      worker: () => [workerPid],
      // Its worker ends with it.
      supervisor: () => [workerPid, supervisorPid],
      keeper: () => [keeper()],
      both: () => [workerPid, keeper()],
      // Its keeper outlives it for a while.
      vmm: () => vmmsBelow(keeper()),
    }[killed];
    let pids: readonly number[] = [];
    seen = await stopInSave(rig, 'slow', seen, () => (pids = ofKind()));
    for (const pid of pids.slice(killed === 'supervisor' ? 1 : 0)) rig.kill(pid);
    if (killed === 'supervisor') await rig.cli('up');
    // A VM that lives keeps the work of the step: the next worker saves it.
    if (killed !== 'worker' && killed !== 'supervisor') unsaved.push(STEPS[seen - 1]!);
  }
  expect((await rig.finish('slow')).outcome.state).toBe('succeeded');
  expect(await rig.output('slow', STEPS.at(-1)!)).toBe(STEPS.map((step) => `${step}\n`).join(''));
  expect(await startsOf(rig, 'slow')).toEqual(
    STEPS.flatMap((step) => [`${step} 1`, ...(unsaved.includes(step) ? [`${step} 2`] : [])]),
  );
  const ready = (await rig.events('slow')).flatMap(({ body }) => (body.type === 'vm-ready' ? [body] : []));
  const before = (step: string): string => STEPS[STEPS.indexOf(step) - 1]!;
  expect(ready.map((body) => body.resumedAfter ?? null)).toEqual([null, ...unsaved.map(before)]);
  const left = namesIn(join(rig.stateDir, 'runs/slow/checkpoints/_shared'));
  expect(left.filter((name) => name.endsWith('.partial'))).toEqual([]);
});

/** Six steps that each add a line to files outside of the workspace; the fifth fails unless `ok` is `yes`. */
const failing = (third = 'c'): string => `api_version: v1
kind: workflow
name: bad
params: { ok: "no" }
sandbox: { memory_mb: 256 }
workflow:
  checkpoint: each-step
  steps:
${['a', 'b', 'c', 'd', 'e', 'f']
  .map((step, index, steps) => {
    const after = index === 0 ? '' : `, depends_on: [${steps[index - 1]!}]`;
    const line = step === 'c' ? third : step;
    const work = `echo ${line} >> /tmp/steps; echo ${line} >> $HOME/steps; cat /tmp/steps; cmp /tmp/steps $HOME/steps`;
    const check = step === 'e' ? `; test "\${{ params.ok }}" = yes` : '';
    return `    - { name: ${step}${after}, run: { program: sh, args: [-c, '${work}${check}'] } }`;
  })
  .join('\n')}
`;

test('a retry and a fork of a run whose fifth of six steps failed begin with its checkpoints', async () => {
  const rig = theRig();
  const spec = rig.spec('bad.yaml', failing());
  expect((await rig.cli('run', spec, '--run-id', 'bad')).code).toBe(1);
  expect(await startsOf(rig, 'bad')).toEqual([...ONCE, 'e 1']);

  const retried = await rig.cli('retry', 'bad', '--from', 'e', '--param', 'ok=yes', '--run-id', 'good');
  expect([retried.code, retried.stdout], retried.stderr).toEqual([0, 'a\nb\nc\nd\ne\nf\n']);
  expect(retried.stderr).toContain('  taken over: a, b, c, d\n  a VM starts from the checkpoint after d\n');
  expect(await startsOf(rig, 'good')).toEqual(['e 1', 'f 1']);

  const other = rig.spec('other.yaml', failing('changed'));
  const forked = await rig.cli('fork', 'bad', other, '--param', 'ok=yes', '--run-id', 'forked');
  expect([forked.code, forked.stdout], forked.stderr).toEqual([0, 'a\nb\nchanged\nd\ne\nf\n']);
  expect(await startsOf(rig, 'forked')).toEqual(['c 1', 'd 1', 'e 1', 'f 1']);

  rmSync(join(rig.stateDir, 'runs/bad/checkpoints'), { recursive: true });
  const whole = await rig.cli('retry', 'bad', '--from', 'e', '--param', 'ok=yes', '--run-id', 'whole');
  expect([whole.code, whole.stdout], whole.stderr).toEqual([0, 'a\nb\nc\nd\ne\nf\n']);
  expect(whole.stderr).toContain('(run bad keeps no checkpoint of its VM on this host)');
  expect(await startsOf(rig, 'whole')).toEqual([...ONCE, 'e 1', 'f 1']);
});
