/** The activities of a worker, made of its dependencies. */
import { admit } from './admit.ts';
import type { Activities } from './contract.ts';
import type { ActivityDeps } from './deps.ts';
import { toActivityFailure } from './failure.ts';
import { finishRun } from './finish-run.ts';
import { runStage } from './run-stage.ts';
import { acquireVm, releaseVm } from './shared-vm.ts';

export function createActivities(deps: ActivityDeps): Activities {
  return {
    admit: (request) => admit(deps, request),
    acquireVm: (request) => acquireVm(deps, request),
    runStage: (request) => runStage(deps, request),
    releaseVm: (request) => releaseVm(deps, request),
    appendEvents: ({ runId, events }) => coded(() => deps.events.append(runId, events).then(() => undefined)),
    finishRun: (request) => coded(() => finishRun(deps, request)),
  };
}

async function coded<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw toActivityFailure(error);
  }
}
