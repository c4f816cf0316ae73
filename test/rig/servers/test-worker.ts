/** A dev server and a worker in this process, around a given sandbox backend: what server tests run on. */
import { createMarkedStarters } from '../../../activities/admission/starters.ts';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createScheduleActivities } from '../../../activities/schedules/send-time.ts';
import { createActivities } from '../../../activities/create-activities.ts';
import { guardByHost } from '../../../activities/calls/host-guard.ts';
import type { Activities } from '../../../activities/contract.ts';
import type { ActivityDeps } from '../../../activities/deps.ts';
import type { SandboxBackend } from '../../../activities/ports/sandbox.ts';
import type { RunEvent } from '../../../domain/run/event.ts';
import { openStores } from '../../../store/open-stores.ts';
import type { Stores } from '../../../store/stores.ts';
import { hostTaskQueue } from '../../../workflows/messages.ts';
import type { WorkflowBundle } from '../../../workers/bundle.ts';
import { sendTime } from '../../../client/schedules/send-time.ts';
import { parentOf } from '../../../client/temporal/workflow-run.ts';
import { connectRuns, type RunsConnection } from '../../../client/temporal/connect.ts';
import { createConditionThreads } from '../../../conditions/threads.ts';
import { createLog, type Log } from '../../../workers/log.ts';
import { ensureSearchAttributes } from '../../../workers/search-attributes.ts';
import { checkPlan, compileSpec } from '../../../workers/spec-check.ts';
import { createEmbeddedAddress, type TemporalAddress } from '../../../client/temporal/temporal-address.ts';
import { createWorkerDeps } from '../runs/worker-deps.ts';
import { startTestServer } from './test-server.ts';
import { testBundle } from './workflow-bundle.ts';
import { installRuntime, startWorkers, type RunningWorkers } from '../../../workers/workers.ts';

export interface TestStack {
  readonly stateDir: string;
  readonly target: TemporalAddress;
  readonly runs: RunsConnection;
  readonly stores: Stores;
  readonly deps: ActivityDeps;
  readonly bundle: WorkflowBundle;
  /** `change`: activities that behave differently, like the activities of another build. */
  startWorker(change?: (activities: Activities) => Partial<Activities>): Promise<RunningWorkers>;
  eventsOf(runId: string): Promise<RunEvent[]>;
  artifact(ref: { readonly sha256: string; readonly sizeBytes: number; readonly mediaType: string }): Promise<string>;
  stop(): Promise<void>;
}

const HOST_ID = 'test-host';

/** The log of the stack that was started last. */
let latestLog: Log = () => undefined;
let isInstalled = false;

/** A process has one runtime of the SDK. After its end, the SDK makes the next one with the same options. */
function installRuntimeOnce(log: Log): void {
  latestLog = log;
  if (!isInstalled) installRuntime((...line) => latestLog(...line));
  isInstalled = true;
}

/**
 * `temporalCli` is a path or a name on PATH, `serverFlags` are of `temporal server start-dev`.
 * @param otherStores  null: files below the state folder
 */
export async function startTestStack(
  backend: SandboxBackend,
  temporalCli: string,
  log: Log = createLog('test-worker'),
  serverFlags: readonly string[] = [],
  otherStores: Stores | null = null,
): Promise<TestStack> {
  installRuntimeOnce(log);
  const server = await startTestServer(temporalCli, serverFlags);
  const stateDir = mkdtempSync(join(tmpdir(), 'voidbox-state-'));
  const target = createEmbeddedAddress(server.address);
  const runs = await connectRuns(target);
  const bundle = await testBundle();
  const stores = otherStores ?? (await openStores({ stateDir }));
  const conditions = createConditionThreads();
  const deps: ActivityDeps = {
    ...createWorkerDeps({ stateDir, stores, backend }, { hostId: HOST_ID, hostQueue: hostTaskQueue(HOST_ID) }, 4096),
    searchAttributes: await ensureSearchAttributes(runs.connection, target.namespace, log),
    starters: createMarkedStarters(stores.marks),
    servicePolicy: 'any',
    evaluate: conditions.evaluate,
    evaluateTexts: conditions.evaluateTexts,
    checkOutput: conditions.checkOutput,
    parentOf: (workflowId, executionId) => parentOf(runs.client, workflowId, executionId),
    compileSpec,
    checkPlan,
  };
  const activities = createActivities(deps);
  return {
    stateDir,
    target,
    runs,
    stores,
    deps,
    bundle,
    startWorker(change = () => ({})) {
      const changed = { ...activities, ...change(activities) };
      const sharedActivities = guardByHost(changed, deps.records, HOST_ID);
      return startWorkers({
        target,
        hostId: HOST_ID,
        activities: changed,
        sharedActivities,
        schedules: createScheduleActivities({ send: async (...call) => await sendTime(stateDir, ...call) }),
        sessions: null,
        bundle,
      });
    },
    async eventsOf(runId) {
      const events: RunEvent[] = [];
      for await (const event of deps.reader.read(runId, 0)) events.push(event);
      return events;
    },
    async artifact(ref) {
      const chunks: Uint8Array[] = [];
      for await (const chunk of deps.artifacts.open(ref)) chunks.push(chunk);
      return Buffer.concat(chunks).toString('utf8');
    },
    async stop() {
      await runs.close();
      await conditions.close();
      await server.stop();
      await stores.close();
      rmSync(stateDir, { recursive: true, force: true });
    },
  };
}
