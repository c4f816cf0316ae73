/** Cancel and terminate, with the worker alive and dead; how soon a cancel takes effect is in `cancel-at-once.vm.test.ts`. */
import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { readEnvironment } from '../../setup/environment.ts';
import { resolveHostPieces } from '../../setup/resolve.ts';
import { interruptible, sleeping } from './specs.ts';
import { temporal, until } from './rig.ts';
import { useRig } from './shared-rig.ts';

const theRig = useRig();

test('Ctrl-C on a followed run cancels it and exits with 130', async () => {
  const rig = theRig();
  const run = rig.start('run', rig.spec('spec.yaml', sleeping(600)), '--run-id', 'interrupted');
  await rig.waitOutput('interrupted', 'sleep', 'begun');
  run.child.kill('SIGINT');
  expect((await run.done).code).toBe(130);
  expect((await rig.finish('interrupted', 20_000)).outcome.state).toBe('cancelled');
});

test('cancel with the worker dead: it takes effect when a worker is back', async () => {
  const rig = theRig();
  await rig.launch(rig.spec('spec.yaml', sleeping(600)), 'no-worker');
  await rig.waitOutput('no-worker', 'sleep', 'begun');
  const stack = await rig.liveStack();
  rig.pause(stack.supervisorPid);
  rig.kill(stack.workerPid);
  execFileSync((await resolveHostPieces(readEnvironment(), { install: false })).temporalCli, [
    'workflow',
    'cancel',
    '--workflow-id',
    'no-worker',
    '--address',
    stack.address,
  ]);
  rig.wake(stack.supervisorPid);
  expect((await rig.finish('no-worker', 60_000)).outcome.state).toBe('cancelled');
});

test('an operator terminates the workflow: status reports it and the VM ends', async () => {
  const rig = theRig();
  await rig.launch(rig.spec('spec.yaml', sleeping(600)), 'terminated');
  await rig.waitOutput('terminated', 'sleep', 'begun');
  const { temporalCli } = await resolveHostPieces(readEnvironment(), { install: false });
  await temporal(temporalCli, rig, 'workflow', 'terminate', '--workflow-id', 'terminated', '--reason', 'by hand');
  const status = await rig.cli('status', 'terminated', '--json');
  expect((JSON.parse(status.stdout) as { state: string }).state).toBe('terminated');
  await until('the VM to end', 60_000, () => rig.keepers().length === 0, 200);
});

test('a command that exits with 0 when Voidbox ends it has not succeeded: for its run, finally, outputs and a retry', async () => {
  const rig = theRig();
  const run = rig.start('run', rig.spec('spec.yaml', interruptible(40)), '--run-id', 'ended');
  await rig.waitOutput('ended', 'export', 'row 5');
  expect((await rig.cli('cancel', 'ended')).code).toBe(0);
  expect((await run.done).code).toBe(1);
  const status = JSON.parse((await rig.cli('status', 'ended', '--json')).stdout) as RunJson;
  expect(status.state).toBe('cancelled');
  expect(Object.fromEntries(status.stages.map(({ id, state }) => [id, state]))).toEqual({
    late: 'failed',
    code: 'failed',
    export: 'cancelled',
    count: 'skipped',
    clean: 'succeeded',
  });
  const [late, code] = status.stages;
  expect(late?.failure?.code).toBe('stage/timeout');
  expect(await rig.output('ended', 'late')).toBe('cleaned\n');
  expect(code?.failure?.message).toBe('stage code ended with exit code 255');
  expect(await rig.output('ended', 'clean')).toBe('cleaned\n');
  const listed = JSON.parse((await rig.cli('artifacts', 'ended', '--json')).stdout) as ArtifactsJson;
  expect(listed.artifacts.filter(({ stage }) => stage === 'export')).toMatchObject([{ name: 'dist', partial: true }]);

  const retried = await rig.cli('retry', 'ended', '--run-id', 'again');
  expect([retried.code, retried.stdout]).toEqual([0, '40\n']);
  expect(retried.stderr).not.toContain('export (taken over');
});

interface RunJson {
  readonly state: string;
  readonly stages: readonly {
    readonly id: string;
    readonly state: string;
    readonly failure: { readonly code: string; readonly message: string } | null;
  }[];
}

interface ArtifactsJson {
  readonly artifacts: readonly { readonly stage: string; readonly name: string | null; readonly partial?: boolean }[];
}
