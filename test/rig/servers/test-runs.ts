/** A stack with one worker for all server tests of a file, and helpers for its runs. */
import { afterAll, beforeAll } from 'vitest';
import type { Activities } from '../../../activities/contract.ts';
import type { SandboxBackend } from '../../../activities/ports/sandbox.ts';
import type { RunsConnection } from '../../../client/temporal/connect.ts';
import { awaitOutcome } from '../../../client/runs/runs.ts';
import type { RunOutcome } from '../../../domain/run/event.ts';
import type { Stores } from '../../../store/stores.ts';
import { emptyView, type RunView } from '../../../store/run-view.ts';
import { project } from '../../../store/projection.ts';
import type { RunningWorkers } from '../../../workers/workers.ts';
import { recordHistoriesOf, recordingDir } from '../runs/record-histories.ts';
import { temporalCliForTests } from './temporal-cli.ts';
import { startTestStack, type TestStack } from './test-worker.ts';

type ChangeActivities = (activities: Activities) => Partial<Activities>;

export interface TestRuns {
  /** Available from the first test on. */
  readonly stack: TestStack;
  readonly client: RunsConnection['client'];
  /** Starts a worker after `stopWorker` has stopped the previous one. */
  startWorker(change?: ChangeActivities): Promise<void>;
  stopWorker(): Promise<void>;
  outcomeOf(runId: string): Promise<RunOutcome>;
  /** Returns the text of a run's result. */
  textOf(outcome: RunOutcome): Promise<string>;
  viewOf(runId: string): Promise<RunView>;
}

export interface TestRunsOptions {
  /** Runs whose histories are recorded if recording is on. */
  readonly recorded: readonly string[];
  /** The windows of items of these runs, which are recorded too. */
  readonly windows?: () => Promise<readonly string[]>;
  /** Activities that replace the real ones, unless `startWorker` replaces them, too. */
  readonly activities?: ChangeActivities;
  /** Absent: files below the state folder. */
  readonly stores?: Stores;
}

/** Starts both before the first test and stops them after the last. */
export function useTestRuns(
  backend: SandboxBackend,
  { recorded, windows, activities, stores }: TestRunsOptions,
): TestRuns {
  let stack: TestStack | undefined;
  let worker: RunningWorkers | undefined;
  const runs: TestRuns = {
    get stack() {
      if (stack === undefined) throw new Error('the stack starts before the first test, and not with its file');
      return stack;
    },
    get client() {
      return runs.stack.runs.client;
    },
    async startWorker(change = activities) {
      worker = await runs.stack.startWorker(change);
    },
    async stopWorker() {
      worker?.shutdown();
      await worker?.ended;
      await worker?.close();
    },
    outcomeOf: (runId) => awaitOutcome(runs.client, runId),
    textOf: ({ output }) => runs.stack.artifact(output!),
    async viewOf(runId) {
      return (await runs.stack.eventsOf(runId)).reduce(project, emptyView(runId));
    },
  };
  beforeAll(async () => {
    stack = await startTestStack(backend, await temporalCliForTests(), () => undefined, [], stores);
    await runs.startWorker();
  }, 60_000);
  afterAll(async () => {
    if (stack !== undefined) await recordHistoriesOf(stack.runs.client, recorded);
    if (recordingDir() !== null && windows !== undefined) await recordHistoriesOf(runs.client, await windows());
    await runs.stopWorker();
    await stack?.stop();
  });
  return runs;
}
