/** The activities of a worker, made of its dependencies. Each call is checked against the run's records first. */
import { admit } from './admit.ts';
import type { Activities } from './contract.ts';
import type { ActivityDeps } from './deps.ts';
import { toActivityFailure } from './failure.ts';
import { finishedAlready, finishRun } from './finish-run.ts';
import { createRunCalls } from './run-calls.ts';
import { runStage } from './run-stage.ts';
import { acquireVm, releaseVm } from './shared-vm.ts';

export function createActivities(deps: ActivityDeps): Activities {
  const calls = createRunCalls(deps);
  return {
    admit: async (request) => {
      const admission = await admit(deps, request);
      // There may have been another run with this id, which ended without a call here and was pruned.
      calls.forget(request.runId);
      return admission;
    },
    acquireVm: (call) => coded(async () => acquireVm(deps, await calls.acquire(call))),
    runStage: (call) => coded(async () => runStage(deps, await calls.stage(call))),
    releaseVm: (call) => coded(async () => releaseVm(deps, await calls.release(call))),
    appendEvents: (call) =>
      coded(async () => {
        const { runId, events } = await calls.append(call);
        await deps.events.append(runId, events);
      }),
    finishRun: (call) =>
      coded(async () => {
        const { ended, ...request } = await calls.finish(call);
        const outcome =
          ended === null ? await finishRun(deps, request) : await finishedAlready(deps, request.runId, ended);
        calls.forget(request.runId);
        return outcome;
      }),
  };
}

async function coded<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw toActivityFailure(error);
  }
}
