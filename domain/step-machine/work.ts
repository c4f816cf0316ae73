/**
 * The work of a visit: the command for its cursor's phase. A pure function of the state, so that the command can be
 * made again after a crash.
 */
import type { Command } from './command.ts';
import type { SkillFacts } from './facts.ts';
import { skillAt } from './draft.ts';
import { frameOf, ownCount, type Cursor, type SessionState } from './state.ts';

/** Null for phases without work. */
export function commandFor(facts: SkillFacts, state: SessionState, cursor: Cursor): Command | null {
  const { id, frame: frameId, step, phase } = cursor;
  const frame = frameOf(state, frameId);
  const at = { cursor: id, frame: frameId, step };
  const visits = ownCount(frame.visits, step);
  switch (phase.kind) {
    case 'rendering':
      return { type: 'render-prompt', ...at, attempts: visits, introduce: !frame.introduced };
    case 'validating':
      return { type: 'validate', ...at, value: phase.raw };
    case 'acting':
      return {
        type: 'run-action',
        ...at,
        response: phase.response,
        attempt: phase.attempt,
        idempotencyKey: `${state.session}/${cursor.turn}/${frame.prefix}${step}`,
        timeoutMs: skillAt(facts, frame.skill).steps[step]!.timeoutMs,
      };
    case 'saving':
      return { type: 'save', ...at, ...answer(phase) };
    case 'choosing':
      return { type: 'choose-next', ...at, ...answer(phase), attempts: visits };
    case 'measuring':
      return { type: 'measure-wait', ...at, attempts: visits };
    case 'backoff':
      return timer(state, cursor, 'retry', phase.dueMs);
    case 'waiting':
      return timer(state, cursor, 'wait', phase.dueMs);
    case 'asking':
      return cursor.deadlineMs === null ? null : timer(state, cursor, 'deadline', cursor.deadlineMs);
    case 'starting-child':
      return { type: 'start-child', ...at, subskill: phase.subskill, response: phase.response, returns: phase.returns };
    case 'rendering-topic':
      return { type: 'render-topic', ...at, topic: phase.topic };
    case 'finishing':
      return { type: 'check-final', ...at, finalOutput: phase.finalOutput, response: phase.response };
    case 'parked':
    case 'calling':
    case 'stuck':
      return null;
  }
}

function answer(phase: { readonly response: unknown; readonly actionResult?: unknown }): {
  response: unknown;
  actionResult?: unknown;
} {
  return 'actionResult' in phase
    ? { response: phase.response, actionResult: phase.actionResult }
    : { response: phase.response };
}

function timer(state: SessionState, cursor: Cursor, reason: 'wait' | 'retry' | 'deadline', dueMs: number): Command {
  return {
    type: 'wait',
    cursor: cursor.id,
    frame: cursor.frame,
    step: cursor.step,
    reason,
    durationMs: Math.max(0, dueMs - state.nowMs),
    dueMs,
  };
}

/** Whether the visit still has work, so that the client waits. */
export function isBusy(cursor: Cursor): boolean {
  const { kind } = cursor.phase;
  return kind !== 'asking' && kind !== 'waiting' && kind !== 'calling' && kind !== 'stuck' && kind !== 'parked';
}

/** Every command that is under way, to be carried out again when a session resumes after a crash. */
export function listPendingCommands(facts: SkillFacts, state: SessionState): readonly Command[] {
  return state.cursors.flatMap((cursor) => commandFor(facts, state, cursor) ?? []);
}
