import { emptyView, newStage, type RunView, type StageView } from '../../../store/run-view.ts';

/** Views of runs for golden texts; every time is counted from this one. */
export const START_MS = Date.UTC(2026, 2, 4, 5, 6, 7);

export function stage(id: string, more: Partial<StageView> = {}): StageView {
  return { ...newStage(id), ...more };
}

export function run(stages: readonly StageView[], more: Partial<RunView> = {}): RunView {
  return {
    ...emptyView('sales-20260304-050607-ab12'),
    name: 'sales',
    kind: 'workflow',
    hostId: 'h1',
    stages,
    outputStage: stages.at(-1)?.id ?? '',
    startedAtMs: START_MS,
    seq: 1,
    ...more,
  };
}

export const FAILED_STAGE = stage('build', {
  state: 'failed',
  execKey: 'build/0/2',
  attempt: 2,
  startedAtMs: START_MS,
  durationMs: 1_500,
  exitCode: 2,
  failure: {
    code: 'stage/exit-nonzero',
    message: 'stage build ended with exit code 2',
    stderrTail: 'make: *** no rule\n\u001b[31mboom\u001b[0m\n',
  },
});

export const FAILED_RUN = run([FAILED_STAGE, stage('ship', { state: 'skipped', reason: 'stage "build" failed' })], {
  state: 'failed',
  finishedAtMs: START_MS + 2_500,
  outcome: { state: 'failed', failedStage: 'build', failure: FAILED_STAGE.failure, output: null },
});
