/** Converts the result of a session to the reply of a tool. */
import type {
  SessionResult,
  ErrorKind,
  PromptResult,
  ValidationErrorResult,
  WaitingResult,
} from '../../domain/step-machine/result.ts';
import type { SessionReply } from './session-store.ts';
import { failure, type ToolReply } from './tool-set.ts';

/** @param output  the answer that this replies to; undefined without an answer */
export function resultReply(session: string, result: SessionResult, output: unknown, nowMs: number): ToolReply {
  switch (result.kind) {
    case 'prompt':
      return { structured: { session, status: 'prompt', ...promptFields(result) }, isError: false };
    case 'done':
      return { structured: { session, status: 'done', finalOutput: result.finalOutput ?? null }, isError: false };
    case 'waiting':
      return { structured: { session, status: 'waiting', ...createWaitingFields(result, nowMs) }, isError: false };
    case 'error':
      return errorReply(session, result, output);
    case 'redirect':
      return failure(
        'redirect',
        `The skill leads to "${result.redirect}", which it does not have.`,
        'Tell the user; this must be fixed in the skill.',
        false,
        {
          session,
        },
      );
  }
}

/** Without `completed` and what was passed on the way: the agent wrote the one, and pays for every word of the other. */
function promptFields({
  human,
  open,
  preamble,
  prompt,
  schema,
  step,
  turn,
}: PromptResult): Readonly<Record<string, unknown>> {
  return {
    step,
    prompt,
    schema,
    ...(preamble === undefined ? {} : { preamble }),
    ...(turn === undefined ? {} : { turn }),
    ...(human === undefined
      ? {}
      : { human: { ...human, ...(human.dueMs === undefined ? {} : { dueAt: new Date(human.dueMs).toISOString() }) } }),
    ...(open === undefined ? {} : { open }),
  };
}

function createWaitingFields({ dueMs, step }: WaitingResult, nowMs: number): Readonly<Record<string, unknown>> {
  const waitMs = Math.max(0, dueMs - nowMs);
  return {
    step,
    dueMs,
    dueAt: new Date(dueMs).toISOString(),
    waitMs,
    remedy: 'Call advance with `session` alone when the time has come.',
  };
}

const LOOK = 'Call advance with `session` alone to see which step is due.';
const ANEW = 'Call start to begin a new session.';
const REMEDIES: Readonly<Record<ErrorKind, string>> = {
  validation: LOOK,
  order: LOOK,
  limit: ANEW,
  busy: 'Call advance with `session` alone; it answers when the step has been worked on.',
  away: 'Call advance with the same `step` and `output` again later, when a worker that has the code of the session runs.',
  action:
    'Call advance with the `step` of this error and the same `output`, without `turn`, to try once more, or tell the user.',
  failed: ANEW,
  cancelled: ANEW,
};

function errorReply(
  session: string,
  { error, message, retry, step }: ValidationErrorResult,
  output: unknown,
): ToolReply {
  const remedy = error === 'validation' && retry ? fix(output) : REMEDIES[error];
  return failure(error, message, remedy, retry, { session, step });
}

/** Hosts that do not know the type of an argument pass its JSON as a text. */
function fix(output: unknown): string {
  const fixed = "Fix the output so that it fits the step's schema, and call advance again with the same step.";
  return typeof output === 'string' && /^\s*[[{]/.test(output)
    ? `${fixed} It was a string that holds JSON: pass the value itself.`
    : fixed;
}

export function createRefusalReply(
  { message, refusal, remedy }: Extract<SessionReply, { kind: 'refused' }>,
  session: unknown,
): ToolReply {
  return failure(
    refusal,
    message,
    remedy,
    refusal === 'full' || refusal === 'unavailable' || refusal === 'params',
    typeof session === 'string' ? { session } : {},
  );
}

export function callerError(
  error: string,
  message: string,
  remedy: string,
  more: Readonly<Record<string, unknown>> = {},
): ToolReply {
  return failure(error, message, remedy, error !== 'internal', more);
}
