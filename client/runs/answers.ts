/** Answers stages that ask, by an update of the run's workflow, and explains its rejections. */
import {
  ApplicationFailure,
  type Client,
  isGrpcServiceError,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
} from '@temporalio/client';
import { ITEMS_MESSAGES, ITEMS_WORKFLOW_TYPE, RUN_MESSAGES } from '../../workflows/messages.ts';
import type { AnswerReceipt, AnswerRequest } from '../../workflows/run/answer-request.ts';
import type { RunStatus } from '../../workflows/run/run-status.ts';
import { isClosing } from '../sessions/update.ts';

/** The gRPC status of a call that exceeds its own deadline. */
const DEADLINE_EXCEEDED = 4;

/**
 * `refused`: the run rejects the answer. `ended`: the run accepts no more answers. `silent`: no worker of the run
 * answers.
 */
export class AnswerError extends Error {
  readonly kind: 'refused' | 'ended' | 'silent';

  constructor(kind: AnswerError['kind'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'AnswerError';
    this.kind = kind;
  }
}

/** Answers a stage. The window of the list answers a stage of an item, such as `review[3].ok`. @throws AnswerError */
export async function answerStage(client: Client, runId: string, request: AnswerRequest): Promise<AnswerReceipt> {
  return translateErrors(runId, async () => {
    const list = LIST_OF_ITEM.exec(request.stage)?.[0];
    if (list !== undefined) return await answerItem(client, runId, list, request);
    return await client.workflow
      .getHandle(runId)
      .executeUpdate<AnswerReceipt, [AnswerRequest]>(RUN_MESSAGES.answer, { args: [request] });
  });
}

async function answerItem(client: Client, runId: string, list: string, request: AnswerRequest): Promise<AnswerReceipt> {
  const { status } = await client.workflow.getHandle(runId).describe();
  if (status.name !== 'RUNNING') throw createEndedError(runId);
  const windows = await windowsOf(client, runId, list);
  const nobody = new AnswerError(
    'refused',
    `no stage ${JSON.stringify(request.stage)} of run ${runId} waits for an answer`,
  );
  // A window that has already received the answer knows its result.
  const window = windows.find(({ asking }) => asking.includes(request.stage)) ?? windows.at(-1);
  if (window === undefined) throw nobody;
  try {
    return await client.workflow
      .getHandle(window.workflowId)
      .executeUpdate<AnswerReceipt, [AnswerRequest]>(ITEMS_MESSAGES.answer, { args: [request] });
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) throw nobody;
    throw error;
  }
}

/** Matches the list at the beginning of the name of an item's stage. */
const LIST_OF_ITEM = /^[^[\]#]+(?=(?:#\d+)?\[)/;

interface WindowOfItems {
  readonly workflowId: string;
  /** Names of the stages of its items that wait for an answer now. */
  readonly asking: readonly string[];
}

/**
 * Returns the open windows of a run, and the windows within them, the outermost first.
 * @param list  the run's stage that has the items; null: every list
 */
async function windowsOf(client: Client, runId: string, list: string | null): Promise<readonly WindowOfItems[]> {
  const windows: WindowOfItems[] = [];
  let level = (await childrenOf(client, runId)).filter((id) => list === null || isWindowOf(id, list));
  while (level.length > 0) {
    const next: string[] = [];
    for (const workflowId of level) {
      const handle = client.workflow.getHandle(workflowId);
      try {
        windows.push({ workflowId, asking: await handle.query<readonly string[], []>(ITEMS_MESSAGES.asking) });
        next.push(...(await childrenOf(client, workflowId)));
      } catch (error) {
        // The window has ended since then.
        if (!(error instanceof WorkflowNotFoundError)) throw error;
      }
    }
    level = next;
  }
  return windows;
}

async function childrenOf(client: Client, workflowId: string): Promise<readonly string[]> {
  const { raw } = await client.workflow.getHandle(workflowId).describe();
  return (raw.pendingChildren ?? []).flatMap(({ workflowTypeName, workflowId: id }) =>
    workflowTypeName === ITEMS_WORKFLOW_TYPE && typeof id === 'string' ? [id] : [],
  );
}

/** Whether the id `items/<execution>/<instance>/<stage>/<window>` is a window of the list. */
function isWindowOf(workflowId: string, list: string): boolean {
  return workflowId.split('/')[3]?.replace(/~\d+$/, '') === list;
}

export interface OpenQuestions {
  /** The name in the spec; null before the admission. */
  readonly name: string | null;
  readonly host: string | null;
  /** Names of the stages that wait for an answer, in the plan's order, and then those of items. */
  readonly stages: readonly string[];
}

/** Asks the run itself, so that a client of another host knows its questions. @throws AnswerError */
export async function readOpenQuestions(client: Client, runId: string): Promise<OpenQuestions> {
  return translateErrors(runId, async () => {
    const { state, name, host, stages } = await client.workflow
      .getHandle(runId)
      .query<RunStatus, []>(RUN_MESSAGES.view);
    if (state !== 'running' && state !== 'admitting') throw createEndedError(runId);
    const own = stages.flatMap(({ id, state: each }) => (each === 'asking' ? [id] : []));
    const ofItems = await windowsOf(client, runId, null);
    return { name, host, stages: [...own, ...ofItems.flatMap(({ asking }) => asking)] };
  });
}

export async function listAskingStages(client: Client, runId: string): Promise<readonly string[]> {
  return (await readOpenQuestions(client, runId)).stages;
}

async function translateErrors<T>(runId: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) throw createEndedError(runId, error);
    if (error instanceof WorkflowUpdateFailedError) {
      if (isClosing(error.cause)) throw createEndedError(runId, error);
      if (error.cause instanceof ApplicationFailure)
        throw new AnswerError('refused', error.cause.message, { cause: error });
    }
    if (isTimeout(error)) throw new AnswerError('silent', `no worker of run ${runId} answers`, { cause: error });
    throw error;
  }
}

function createEndedError(runId: string, cause?: unknown): AnswerError {
  return new AnswerError('ended', `run ${runId} has ended`, { cause });
}

function isTimeout(error: unknown): boolean {
  if (isGrpcServiceError(error)) return error.code === DEADLINE_EXCEEDED;
  const cause = error instanceof Error ? error.cause : undefined;
  return cause !== undefined && cause !== error && isTimeout(cause);
}
