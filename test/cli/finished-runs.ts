/** Two runs that have ended, as workers leave them: one succeeded, one failed at its second stage. */
import type { NewRunEvent } from '../../domain/run/event.ts';
import type { StageFailure } from '../../domain/run/stage-result.ts';
import type { DataRef } from '../../domain/plan/plan.ts';
import { openStores } from '../../store/open-stores.ts';
import { stageResult } from '../rig/runs/stage-results.ts';

/** So long ago that the shown age does not change while a test runs. */
const STARTED_MS = Date.now() - 10.5 * 86_400_000;
const FAILURE: StageFailure = { code: 'stage/exit-nonzero', message: 'exit code 3', stderrTail: 'row 7 is empty' };

export async function leaveFinishedRuns(stateDir: string): Promise<void> {
  const { events, artifacts, close } = await openStores({ stateDir });
  const output = await artifacts.put(bytes('the result\n'), 'text/plain');
  await events.append('sales-good', [
    admitted(),
    ...stage('load', 500, { printed: 'loaded 9 rows\n' }),
    ...stage('check', 1_000, { printed: 'all is well\n' }),
    ...stage('report', 1_500, { printed: 'the result\n', output }),
    finished(2_000, { output }),
  ]);
  await events.append('sales-bad', [
    admitted(),
    ...stage('load', 500, { printed: 'loaded 9 rows\n' }),
    ...stage('check', 1_000, { complained: 'row 7 is empty\n', failure: FAILURE }),
    {
      id: 'stage/report/skipped',
      atMs: STARTED_MS + 1_500,
      body: { type: 'stage-skipped', stage: 'report', reason: 'check failed' },
    },
    finished(2_000, { failure: FAILURE }),
  ]);
  await close();
}

function admitted(): NewRunEvent {
  const stages = [
    { id: 'load', dependsOn: [] },
    { id: 'check', dependsOn: ['load'] },
    { id: 'report', dependsOn: ['check'] },
  ];
  return {
    id: 'run/admitted',
    atMs: STARTED_MS,
    body: { type: 'run-admitted', name: 'sales', kind: 'workflow', hostId: 'host-a', stages, outputStage: 'report' },
  };
}

function stage(
  name: string,
  afterMs: number,
  {
    printed = '',
    complained = '',
    failure = null,
    output = null,
  }: { printed?: string; complained?: string; failure?: StageFailure | null; output?: DataRef | null },
): NewRunEvent[] {
  const execKey = `${name}/0/1`;
  const atMs = STARTED_MS + afterMs;
  const stream = printed === '' ? 'stderr' : 'stdout';
  const data = printed + complained;
  const result = stageResult(execKey, {
    failure,
    durationMs: 400,
    output,
    vm: { backend: 'qemu', vmm: 'qemu', isolation: 'microvm', accelerator: 'tcg' },
    command: { exitCode: failure === null ? 0 : 3, stdoutBytes: printed.length, stderrBytes: complained.length },
  });
  return [
    { id: `stage/${execKey}/started`, atMs, body: { type: 'stage-started', stage: name, execKey, attempt: 1 } },
    {
      id: `exec/${execKey}/${stream}/0`,
      atMs: atMs + 300,
      body: { type: 'output', stage: name, execKey, stream, from: 0, to: data.length, encoding: 'utf8', data },
    },
    {
      id: `stage/${execKey}/finished`,
      atMs: atMs + 400,
      body: { type: 'stage-finished', stage: name, execKey, result },
    },
  ];
}

function finished(
  afterMs: number,
  { failure = null, output = null }: { failure?: StageFailure | null; output?: DataRef | null },
): NewRunEvent {
  const outcome = {
    state: failure === null ? ('succeeded' as const) : ('failed' as const),
    failedStage: failure === null ? null : 'check',
    failure,
    output,
  };
  return { id: 'run/finished', atMs: STARTED_MS + afterMs, body: { type: 'run-finished', outcome } };
}

async function* bytes(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}
