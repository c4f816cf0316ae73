/** The answers to clients, once the session waits. */
import type { Draft } from './draft.ts';
import type { SessionResult, OpenStep, PromptResult } from './result.ts';
import { frameOf, ownCount, type Cursor, type RequestState, type SessionState } from './state.ts';
import { isBusy } from './work.ts';
import { recordsOf } from './records.ts';

export function settleRequests(draft: Draft): void {
  for (const request of draft.requests()) {
    const { id } = request;
    const moved = draft.cursors().filter((cursor) => cursor.request === id);
    if (!draft.isOver && (moved.some(isBusy) || !canAnswer(draft, request))) continue;
    draft.ask({ type: 'reply', request: id, result: request.error ?? resultOf(draft.state, request, id) });
    draft.dropRequest(id);
    for (const { id: cursor } of draft.cursors().filter((other) => other.request === id))
      draft.setCursor(cursor, { request: null });
  }
}

/**
 * A client whose branch has joined is answered with the steps that are open in other branches. It waits until there is
 * such a step.
 */
function canAnswer(draft: Draft, request: RequestState): boolean {
  if (request.error !== undefined) return true;
  const cursors = draft.cursors();
  return (
    !cursors.some(isBusy) ||
    cursors.some(({ phase }) => phase.kind === 'asking' || phase.kind === 'waiting' || phase.kind === 'stuck')
  );
}

/** The answer for a client that asks for the state of the session. */
export function currentResult(state: SessionState): SessionResult {
  return resultOf(state, { id: '', step: '', autoAdvanced: [] }, null);
}

function resultOf(state: SessionState, request: RequestState, id: string | null): SessionResult {
  const completed = request.completed === undefined ? {} : { completed: completedOf(request.completed) };
  const auto = request.autoAdvanced.length === 0 ? {} : { autoAdvanced: request.autoAdvanced.map(completedOf) };
  const { status } = state;
  const createEndReply = (error: 'failed' | 'cancelled', step: string, message: string): SessionResult => ({
    kind: 'error',
    error,
    step,
    message,
    retry: false,
  });
  switch (status.kind) {
    case 'done':
      return { kind: 'done', done: true, finalOutput: status.finalOutput, ...completed, ...auto };
    case 'redirected':
      return { kind: 'redirect', redirect: status.redirect, ...completed, ...auto, store: storeSnapshot(state, 0) };
    case 'failed':
      return createEndReply('failed', status.step, status.error.message);
    case 'cancelled':
      return createEndReply('cancelled', request.step, `The session was cancelled: ${status.reason}`);
    case 'new':
    case 'open':
      return openResult(state, id, completed, auto);
  }
}

function openResult(
  state: SessionState,
  id: string | null,
  completed: Pick<PromptResult, 'completed'>,
  auto: Pick<PromptResult, 'autoAdvanced'>,
): SessionResult {
  const { cursors } = state;
  const asking = cursors.filter(({ phase }) => phase.kind === 'asking');
  const shown = asking.find(({ request }) => request !== null && request === id) ?? asking[0];
  if (shown !== undefined) return promptResult(state, shown, asking, completed, auto);
  const waiting = cursors.filter(({ phase }) => phase.kind === 'waiting');
  const first = waiting.toSorted((a, b) => dueOf(a) - dueOf(b))[0];
  if (first !== undefined)
    return { kind: 'waiting', step: addressIn(state, first), dueMs: dueOf(first), ...completed, ...auto };
  const stuck = cursors.find(({ phase }) => phase.kind === 'stuck');
  const step = stuck === undefined ? '' : addressIn(state, stuck);
  if (stuck?.phase.kind === 'stuck')
    return { kind: 'error', error: 'action', step, message: stuck.phase.error.message, retry: true };
  return {
    kind: 'error',
    error: 'busy',
    step,
    message: `Session "${state.session}" has no step that can be answered at present.`,
    retry: false,
  };
}

function promptResult(
  state: SessionState,
  cursor: Cursor,
  asking: readonly Cursor[],
  completed: Pick<PromptResult, 'completed'>,
  auto: Pick<PromptResult, 'autoAdvanced'>,
): PromptResult {
  const { preamble, prompt, schema } = promptOf(cursor);
  const others = asking.filter(({ id }) => id !== cursor.id);
  const open = others.map((other): OpenStep => {
    const { prompt: text, schema: of } = promptOf(other);
    return { step: addressIn(state, other), prompt: text, schema: of, turn: other.turn };
  });
  return {
    kind: 'prompt',
    step: addressIn(state, cursor),
    ...(preamble === undefined ? {} : { preamble }),
    prompt,
    schema,
    ...completed,
    ...auto,
    ...(state.options.showTurns ? { turn: cursor.turn } : {}),
    ...(cursor.human === null
      ? {}
      : { human: { ...cursor.human, ...(cursor.deadlineMs === null ? {} : { dueMs: cursor.deadlineMs }) } }),
    ...(open.length === 0 ? {} : { open }),
  };
}

/** A step that a replay made current has no rendered prompt, because its client already has it. */
function promptOf(cursor: Cursor): NonNullable<Cursor['prompt']> {
  return cursor.prompt ?? { prompt: '', schema: null };
}

function dueOf({ phase }: Cursor): number {
  return phase.kind === 'waiting' ? phase.dueMs : Infinity;
}

export function addressIn(state: SessionState, { frame, step }: Cursor): string {
  return frameOf(state, frame).prefix + step;
}

/** Contains `actionResult` even if there was no action, so that every record has the same keys. */
function completedOf(completed: NonNullable<RequestState['completed']>): NonNullable<RequestState['completed']> {
  const { step, response, actionResult, result } = completed;
  return Object.freeze({ step, response, actionResult, result });
}

/** The store as plain data: the sub-stores, and the last results in `steps`. */
export function storeSnapshot(state: SessionState, frame: number): Readonly<Record<string, unknown>> {
  const { stores, last } = frameOf(state, frame);
  return { ...stores, steps: { ...last } };
}

/** The names of completed steps, oldest first, from the records that the state still contains. */
export function pathOf(state: SessionState): readonly string[] {
  return [...recordsOf(state.records)].map(({ step }) => step);
}

export function visitsOf(state: SessionState, frame: number, step: string): number {
  return ownCount(frameOf(state, frame).visits, step);
}
