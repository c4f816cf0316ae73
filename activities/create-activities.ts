/** Creates the activities of a worker from its dependencies. Each call is checked against the run's records first. */
import type { StageResult } from '../domain/run/stage-result.ts';
import { findTime } from './decisions/find-time.ts';
import { checkAnswersIn } from './decisions/answer-proofs.ts';
import { askApproval, checkRejection, recordApproval } from './decisions/approvals.ts';
import { admit } from './admission/admit.ts';
import { restrictToStart } from './admission/proven-start.ts';
import { evaluateCondition } from './decisions/conditions.ts';
import type { Activities } from './contract.ts';
import type { ActivityDeps } from './deps.ts';
import { createEndsOfLists } from './items/ends-of-lists.ts';
import { endPart } from './items/end-part.ts';
import { toStageFailure, toActivityFailure } from './failure.ts';
import { withHeartbeat } from './heartbeat.ts';
import { finishAgain, finishRun } from './finish-run.ts';
import { addOutputText } from './run-reply.ts';
import { mockStage } from './attempt/mocked-stage.ts';
import { createRunCalls } from './calls/run-calls.ts';
import { beginItems, endItems } from './items/items.ts';
import { runStage } from './attempt/run-stage.ts';
import { acquireVm, releaseVm } from './vm/shared-vm.ts';

export function createActivities(given: ActivityDeps): Activities {
  const lists = createEndsOfLists(given.events);
  const getRun = (runId: string): ReturnType<typeof calls.getRun> => calls.getRun(runId);
  const own = restrictToStart(given, async (runId) => (await getRun(runId)).provenKey);
  const deps: ActivityDeps = { ...own, events: checkAnswersIn(lists.events, { marks: own.marks, runOf: getRun }) };
  const calls = createRunCalls(deps);
  return {
    admit: async (request) => {
      // Admission uses the original dependencies: it ends no list, and must read the worker's current settings.
      const admission = await withHeartbeat(() => admit(given, request));
      // An earlier run may have had this id, ended without a call here, and been pruned.
      calls.forget(request.runId);
      return admission;
    },
    acquireVm: (call) => codeErrors(async () => acquireVm(deps, await calls.acquire(call))),
    runStage: (call) =>
      codeErrors(async () => {
        const work = await calls.stage(call);
        if ('mocked' in work) return throwIfFailed(await mockStage(deps, work.mocked));
        if ('part' in work) return throwIfFailed(await endPart(deps, work.part));
        return throwIfFailed(await runStage(deps, work.inVm));
      }),
    releaseVm: (call) => codeErrors(async () => releaseVm(deps, await calls.release(call))),
    evaluateCondition: (call) => codeErrors(async () => evaluateCondition(deps, await calls.evaluate(call))),
    findTime: (call) => codeErrors(async () => findTime(deps, await calls.findTime(call))),
    askApproval: (call) => codeErrors(async () => askApproval(deps, await calls.ask(call))),
    recordApproval: (call) => codeErrors(async () => recordApproval(deps, await calls.approval(call))),
    checkRejection: (call) => codeErrors(async () => checkRejection(deps, await calls.rejection(call))),
    beginItems: (call) => codeErrors(async () => beginItems(deps, await calls.beginItems(call))),
    endItems: (call) =>
      codeErrors(async () => {
        const request = await calls.endItems(call);
        return throwIfFailed(await endItems(deps, request, lists.take(request.runId, request.execKey)));
      }),
    appendEvents: (call) =>
      codeErrors(async () => {
        const { runId, events } = await calls.append(call);
        await deps.events.append(runId, events);
      }),
    finishRun: (call) =>
      withHeartbeat(async () => {
        const { ended, mayShowText, ...request } = await calls.finish(call);
        const outcome = ended === null ? await finishRun(deps, request) : await finishAgain(deps, request.runId, ended);
        calls.forget(request.runId);
        return mayShowText ? await addOutputText(deps.artifacts, outcome) : outcome;
      }),
  };
}

/** Throws a failed result as a failure. The result is already durable. */
function throwIfFailed(result: StageResult): StageResult {
  if (result.outcome === 'failed') throw toStageFailure(result);
  return result;
}

async function codeErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw toActivityFailure(error);
  }
}
