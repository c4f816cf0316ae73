/** The workflow of a run: admits it, then runs it to its end (`run-loop.ts`). */
import {
  allHandlersFinished,
  CancellationScope,
  condition,
  defineQuery,
  defineSignal,
  defineUpdate,
  proxyActivities,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import type { Activities, Admission, RunRequest } from '../../activities/contract.ts';
import { BEHAVIOUR } from '../../domain/run/behaviour.ts';
import type { RunReply } from '../../domain/run/event.ts';
import type { StageFailure } from '../../domain/run/stage-result.ts';
import { ACTIVITY_OPTIONS } from '../activity-options.ts';
import { reasonOf } from '../activity-outcome.ts';
import { runFailure, workflowCancelled, workflowFailure } from '../failure.ts';
import { answerProblem, type AnswerReceipt, type AnswerRequest } from './answer-request.ts';
import { type RunStatus, stagesAsked, statusBeforeAdmission, statusOf, type ViewRequest } from './run-status.ts';
import { RUN_MESSAGES } from '../messages.ts';
import type { UnreadablePayload } from '../payload-converter.ts';
import { Strays } from './strays.ts';
import { hasLocalActivities } from '../interceptors.ts';
import { RunLoop } from './run-loop.ts';

const answerUpdate = defineUpdate<AnswerReceipt, [AnswerRequest]>(RUN_MESSAGES.answer);
const cancelFinallySignal = defineSignal(RUN_MESSAGES.cancelFinally);
const viewQuery = defineQuery<RunStatus, [ViewRequest?]>(RUN_MESSAGES.view);

const { admit } = proxyActivities<Activities>(ACTIVITY_OPTIONS.admit);
/**
 * Runs a plan or a spec.
 * @returns the outcome of a run that succeeded
 * @throws ApplicationFailure whose type is an error code, if the run failed or was not admitted
 */
export async function voidboxRun(request: RunRequest): Promise<RunReply> {
  const outer = CancellationScope.current();
  return CancellationScope.nonCancellable(async () => {
    let run: RunLoop | null = null;
    // Handlers are set before the first await, so that an early message is answered.
    setHandler(answerUpdate, async (answer) => CancellationScope.nonCancellable(() => run!.questions.answer(answer)), {
      validator(answer) {
        const problem = answerProblem(answer) ?? findAnswerProblem(run, answer);
        if (problem !== null) throw workflowFailure('call/refused', problem);
      },
    });
    setHandler(cancelFinallySignal, () => run?.receive({ type: 'cancel-finally' }));
    let broken: StageFailure | null = null;
    setHandler(viewQuery, (asked) => answerView(run, broken, asked));
    const strays = new Strays();
    strays.listen();
    try {
      const admission = await callAdmit(request);
      const loop = new RunLoop(admission, workflowInfo().workflowId);
      run = loop;
      strays.deliver((event) => loop.note(event));
      outer.cancelRequested.catch(() => loop.receive({ type: 'cancel-requested' }));
      const outcome = await loop.toEnd();
      // A client that answers while the run ends gets a reply, not the error that the workflow is gone.
      if (!allHandlersFinished()) await condition(allHandlersFinished);
      return concludeRun(outcome);
    } catch (error) {
      broken = { ...reasonOf(error), stderrTail: '' };
      throw error;
    }
  });
}

function findAnswerProblem(run: RunLoop | null, { stage }: AnswerRequest): string | null {
  return run === null ? 'the run is not admitted yet: answer when its stage asks' : run.questions.problem(stage);
}

/** @param broken  why the run was not admitted, or could not write its end */
function answerView(run: RunLoop | null, broken: StageFailure | null, asked: unknown): RunStatus {
  const { workflowId } = workflowInfo();
  const standing = run?.standing(broken) ?? null;
  if (standing === null) return statusBeforeAdmission(workflowId, broken);
  const stages = stagesAsked(standing.plan, asked);
  if (typeof stages === 'string') throw workflowFailure('call/refused', stages);
  return statusOf(workflowId, standing, stages);
}

async function callAdmit(request: unknown): Promise<Admission> {
  // The client's value is passed on unchanged: `admit` reports its problems.
  if (isUnreadable(request))
    throw workflowFailure('admit/invalid', `the argument can't be read: ${request.unreadable}`);
  const fields =
    typeof request === 'object' && request !== null && !Array.isArray(request) ? (request as RunRequest) : {};
  try {
    const { workflowId, originalExecutionRunId, startTime } = workflowInfo();
    return await admit({
      ...fields,
      runId: workflowId,
      originalExecutionRunId,
      behaviour: BEHAVIOUR,
      recordsBoots: hasLocalActivities(),
      startedAtMs: startTime.getTime(),
    });
  } catch (error) {
    const { code, message } = reasonOf(error);
    throw workflowFailure(code, message);
  }
}

function isUnreadable(value: unknown): value is UnreadablePayload {
  return typeof value === 'object' && value !== null && 'unreadable' in value;
}

function concludeRun(outcome: RunReply): RunReply {
  switch (outcome.state) {
    case 'succeeded':
      return outcome;
    case 'cancelled':
    case 'terminated':
      throw workflowCancelled('the run was cancelled', outcome);
    case 'failed':
      throw runFailure(outcome);
  }
}
