/** Attempts of one stage `talk` on mock VMs. Their stores are files of the test; each process has dependencies of its own. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ActivityCancellationDetails } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterEach, beforeEach, expect } from 'vitest';
import type { ActivityDeps } from '../../../activities/deps.ts';
import type { EventLog } from '../../../activities/ports/event-log.ts';
import type { StageRequest, VmStage } from '../../../activities/calls/requests.ts';
import { runStage } from '../../../activities/attempt/run-stage.ts';
import type { CommandWork } from '../../../domain/plan/plan.ts';
import type { StageResult } from '../../../domain/run/stage-result.ts';
import { createMockBackend, type MockBackend } from '../../../sandbox/mock/backend.ts';
import type { MockProgram } from '../../../sandbox/mock/programs.ts';
import { openStores } from '../../../store/open-stores.ts';
import type { Stores } from '../../../store/stores.ts';
import { mockWorkerDeps, plainRequest, plainStage } from './mock-worker.ts';

export const RUN = 'run-1';
/** The VM of the stage. */
export const KEY = { runId: RUN, scope: 'talk', instance: [], generation: 0 };

export interface StageAttempts {
  readonly backend: MockBackend;
  readonly stores: Stores;
  readonly events: EventLog;
  /** One worker process; a second call is another process on the same host. */
  processDeps(change?: Partial<ActivityDeps>): ActivityDeps;
  /** Returns the standard output in the run's log. The log must contain it once and in order. */
  storedOutput(): Promise<string>;
  /** The types of the run's events other than output. */
  typesOf(): Promise<string[]>;
}

/**
 * Fresh stores and VMs for each test. `now` is the clock of the VMs; `programs` are the programs that commands may
 * name.
 */
export function useStageAttempts(
  programs: Readonly<Record<string, MockProgram>>,
  now: () => number = () => 0,
): StageAttempts {
  let stateDir: string;
  let backend: MockBackend;
  let stores: Stores;
  beforeEach(async () => {
    stateDir = mkdtempSync(join(tmpdir(), 'voidbox-activities-'));
    backend = createMockBackend({ now, programs });
    stores = await openStores({ stateDir });
  });
  afterEach(async () => {
    await backend.release(KEY);
    await stores.close();
    rmSync(stateDir, { recursive: true, force: true });
  });
  return {
    get backend() {
      return backend;
    },
    get stores() {
      return stores;
    },
    get events() {
      return stores.events;
    },
    processDeps: (change = {}) => mockWorkerDeps({ stateDir, stores, backend }, change),
    async storedOutput() {
      let text = '';
      let position = 0;
      for await (const { body } of stores.reader.read(RUN, 0)) {
        if (body.type !== 'output' || body.stream !== 'stdout') continue;
        expect(body.from).toBe(position);
        position = body.to;
        text += body.data;
      }
      return text;
    },
    async typesOf() {
      const types: string[] = [];
      for await (const { body } of stores.reader.read(RUN, 0, { output: false })) types.push(body.type);
      return types;
    },
  };
}

export function commandWork(program: string, change: Partial<CommandWork> = {}): CommandWork {
  return { kind: 'command', program, args: [], cwd: '/workspace', env: [], stdin: { kind: 'none' }, ...change };
}

/** The first attempt of a stage that runs this program. */
export function request(program: string, change: Partial<VmStage> = {}): StageRequest {
  return plainRequest(RUN, plainStage('talk', 'talk', [program], change));
}

interface RunningAttempt {
  readonly result: Promise<StageResult>;
  cancel(details: ConstructorParameters<typeof ActivityCancellationDetails>[0]): void;
}

export function begin(
  deps: ActivityDeps,
  what: StageRequest,
  info: ConstructorParameters<typeof MockActivityEnvironment>[0] = {},
): RunningAttempt {
  const environment = new MockActivityEnvironment(info, { logger: new DefaultLogger('ERROR', () => undefined) });
  const result = environment.run<[ActivityDeps, StageRequest], StageResult, typeof runStage>(runStage, deps, what);
  result.catch(() => undefined);
  return { result, cancel: (details) => environment.cancel('CANCELLED', new ActivityCancellationDetails(details)) };
}
