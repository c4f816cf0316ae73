/** What is done for a stage that asks people: tell readers the question, keep the answer. */
import { Buffer } from 'node:buffer';
import { CodedError } from '../domain/errors/coded-error.ts';
import type { ApprovalWork, DataRef } from '../domain/plan/plan.ts';
import { type ApprovalAnswer, checkFields } from '../domain/run/approval-answer.ts';
import { EVENT_ID } from '../domain/run/event-id.ts';
import type { NewRunEvent } from '../domain/run/event.ts';
import type { ActivityDeps } from './deps.ts';

export interface AskRequest {
  readonly runId: string;
  readonly stage: string;
  readonly execKey: string;
  readonly attempt: number;
  readonly approval: ApprovalWork;
  readonly deadlineAtMs: number | null;
  readonly events: readonly NewRunEvent[];
}

export interface ApprovalRequest {
  readonly runId: string;
  readonly approval: ApprovalWork;
  readonly by: string | null;
  readonly comment: string | null;
  readonly timedOut: boolean;
  readonly fields: unknown;
  readonly atMs: number;
}

export async function askApproval(deps: Pick<ActivityDeps, 'events' | 'now'>, request: AskRequest): Promise<void> {
  await deps.events.append(request.runId, [...request.events, askingEvent(request, deps.now())]);
}

export function askingEvent(
  { stage, execKey, attempt, approval, deadlineAtMs }: AskRequest,
  atMs: number,
): NewRunEvent {
  const { message, by, fields, onTimeout } = approval;
  const question = { message, by, fields, deadlineAtMs, onTimeout };
  return {
    id: EVENT_ID.attempt(execKey, 'asking'),
    atMs,
    body: { type: 'stage-asking', stage, execKey, attempt, question },
  };
}

/** The same answer gives the same artifact, however often it is kept. @throws CodedError `call/refused` */
export async function recordApproval(
  { artifacts }: Pick<ActivityDeps, 'artifacts'>,
  { runId, approval, by, comment, timedOut, fields, atMs }: ApprovalRequest,
): Promise<DataRef> {
  // A deadline fills in no form.
  const asked = timedOut ? approval.fields.map((field) => ({ ...field, required: false })) : approval.fields;
  const checked = checkFields(asked, fields);
  if ('problem' in checked) throw new CodedError('call/refused', `run ${runId}: ${checked.problem}`);
  const answer: ApprovalAnswer = {
    approved: true,
    by,
    comment,
    fields: checked.values,
    at: new Date(atMs).toISOString(),
    timedOut,
  };
  return artifacts.put(once(Buffer.from(`${JSON.stringify(answer)}\n`)), 'application/json');
}

async function* once(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes;
}
