/** Answers to stages that ask: the update of a run's workflow, and what its refusals say. */
import {
  ApplicationFailure,
  type Client,
  isGrpcServiceError,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
} from '@temporalio/client';
import { RUN_MESSAGES } from '../workflows/messages.ts';
import type { AnswerReceipt, AnswerRequest } from '../workflows/run/answer-request.ts';
import type { RunStatus } from '../workflows/run/run-status.ts';
import { isClosing } from './session-update.ts';

/** Of gRPC: the call's own deadline. */
const DEADLINE_EXCEEDED = 4;

/** `refused`: the run does not take the answer; `ended`: it takes none any more; `silent`: no worker of it answers. */
export class AnswerError extends Error {
  readonly kind: 'refused' | 'ended' | 'silent';

  constructor(kind: AnswerError['kind'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'AnswerError';
    this.kind = kind;
  }
}

/** @throws AnswerError */
export async function answerStage(client: Client, runId: string, request: AnswerRequest): Promise<AnswerReceipt> {
  return told(runId, async () =>
    client.workflow.getHandle(runId).executeUpdate<AnswerReceipt, [AnswerRequest]>(RUN_MESSAGES.answer, {
      args: [request],
    }),
  );
}

/** Names of the stages that wait for an answer, in the plan's order. @throws AnswerError */
export async function stagesThatAsk(client: Client, runId: string): Promise<readonly string[]> {
  const { state, stages } = await told(runId, async () =>
    client.workflow.getHandle(runId).query<RunStatus, []>(RUN_MESSAGES.view),
  );
  if (state !== 'running' && state !== 'admitting') throw ended(runId);
  return stages.flatMap(({ id, state: each }) => (each === 'asking' ? [id] : []));
}

async function told<T>(runId: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) throw ended(runId, error);
    if (error instanceof WorkflowUpdateFailedError) {
      if (isClosing(error.cause)) throw ended(runId, error);
      if (error.cause instanceof ApplicationFailure)
        throw new AnswerError('refused', error.cause.message, { cause: error });
    }
    if (isTimeout(error)) throw new AnswerError('silent', `no worker of run ${runId} answers`, { cause: error });
    throw error;
  }
}

function ended(runId: string, cause?: unknown): AnswerError {
  return new AnswerError('ended', `run ${runId} has ended`, { cause });
}

function isTimeout(error: unknown): boolean {
  if (isGrpcServiceError(error)) return error.code === DEADLINE_EXCEEDED;
  const cause = error instanceof Error ? error.cause : undefined;
  return cause !== undefined && cause !== error && isTimeout(cause);
}
