/** The workflow of a window: consecutive items of a stage (`item-window.ts`). */
import {
  allHandlersFinished,
  CancellationScope,
  condition,
  defineQuery,
  defineUpdate,
  setHandler,
} from '@temporalio/workflow';
import { isQueueName } from '../../domain/run/host.ts';
import { INSTANCE_LIMITS, isPlanId, readInstance } from '../../domain/run/instance.ts';
import { workflowCancelled, workflowFailure } from '../failure.ts';
import { ITEMS_MESSAGES } from '../messages.ts';
import { type AnswerReceipt, answerProblem, type AnswerRequest } from '../run/answer-request.ts';
import type { ItemQuestions } from './item-questions.ts';
import type { ItemsEnd, ItemsRequest } from './request.ts';
import { ItemWindow } from './item-window.ts';

const answerUpdate = defineUpdate<AnswerReceipt, [AnswerRequest]>(ITEMS_MESSAGES.answer);
const askingQuery = defineQuery<readonly string[]>(ITEMS_MESSAGES.asking);

/**
 * Only a run starts it: activities refuse the calls of a window whose parent is not the run that it names.
 * @throws CancelledFailure when it was cancelled, once no work of it runs any longer
 */
export async function voidboxItems(request: ItemsRequest): Promise<ItemsEnd> {
  if (!isRequest(request)) throw workflowFailure('call/refused', 'only a run starts voidboxItems');
  const outer = CancellationScope.current();
  return CancellationScope.nonCancellable(async () => {
    const window = windowOf(request);
    listen(window.questions);
    outer.cancelRequested.catch(() => window.stop());
    const end = await window.toEnd();
    // A client that answers while the last item ends gets a reply.
    if (!allHandlersFinished()) await condition(allHandlersFinished);
    if (outer.consideredCancelled) throw workflowCancelled('the items were cancelled', end);
    return end;
  });
}

function listen(questions: ItemQuestions): void {
  setHandler(answerUpdate, async (answer) => CancellationScope.nonCancellable(() => questions.answer(answer)), {
    validator(answer) {
      const problem = answerProblem(answer) ?? questions.problem(answer.stage);
      if (problem !== null) throw workflowFailure('call/refused', problem);
    },
  });
  setHandler(askingQuery, () => questions.asking);
}

/** Any client that reaches the server can start it with any value, and an error of code would be retried for ever. */
function isRequest(value: unknown): value is ItemsRequest {
  if (typeof value !== 'object' || value === null) return false;
  const {
    runId,
    stage,
    instance = [],
    attempt = 1,
    executionId = '',
    behaviour,
    recordsBoots,
    hostQueue,
    storeQueue,
    leaseQueue = hostQueue,
    lastStart = { events: 0, bytes: 0 },
  } = value as Partial<ItemsRequest>;
  return (
    typeof runId === 'string' &&
    typeof stage === 'object' &&
    isPlanId(String(stage?.id)) &&
    typeof stage?.each === 'object' &&
    isQueueName(hostQueue) &&
    isQueueName(storeQueue) &&
    isQueueName(leaseQueue) &&
    readInstance(instance) !== null &&
    Number.isSafeInteger(attempt) &&
    attempt >= 1 &&
    attempt <= INSTANCE_LIMITS.attempts &&
    typeof executionId === 'string' &&
    typeof behaviour === 'number' &&
    typeof recordsBoots === 'boolean' &&
    typeof lastStart?.events === 'number' &&
    typeof lastStart?.bytes === 'number'
  );
}

function windowOf(request: ItemsRequest): ItemWindow {
  try {
    return new ItemWindow(request);
  } catch (error) {
    // The part is invalid: no run sends it.
    throw workflowFailure('call/refused', `only a run starts voidboxItems: ${String(error)}`);
  }
}
