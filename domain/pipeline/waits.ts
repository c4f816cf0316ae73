/** Stages that wait without a VM: for an answer, or for a time. */
import { EVENT_ID } from '../run/event-id.ts';
import { clip, clipFailure } from './carried-text.ts';
import type { Draft } from './draft.ts';
import { cancel, succeed } from './ends.ts';
import type { Answer } from './event.ts';
import { NO_OUTPUTS } from './state.ts';

/** The wait is over: the time has come, or the run is cancelled. */
export function wake(draft: Draft, stage: number, outcome: 'succeeded' | 'cancelled'): void {
  const execKey = draft.execKey(stage);
  draft.events.push({
    id: EVENT_ID.attempt(execKey, 'woken'),
    body: { type: 'stage-woken', stage: draft.plan.stages[stage]!.id, execKey, outcome },
  });
  if (outcome === 'succeeded') succeed(draft, stage, NO_OUTPUTS);
  else cancel(draft, stage);
}

export function withdraw(draft: Draft, stage: number): void {
  draft.commands.push({ type: 'withdraw', stageId: draft.plan.stages[stage]!.id, attempt: draft.stage(stage).attempt });
  noteAnswer(draft, stage, null);
  cancel(draft, stage);
}

/** For readers: how the question of the stage's attempt ended; null: it was withdrawn. */
export function noteAnswer(draft: Draft, stage: number, answer: Answer | null): void {
  const execKey = draft.execKey(stage);
  const output = answer?.outcome === 'succeeded' ? answer.outputs.output : null;
  const fields = answer?.outcome === 'failed' ? answer.fields : undefined;
  draft.events.push({
    id: EVENT_ID.attempt(execKey, 'answered'),
    ...(answer?.atMs === undefined ? {} : { atMs: answer.atMs }),
    body: {
      type: 'stage-answered',
      stage: draft.plan.stages[stage]!.id,
      execKey,
      outcome: answer?.outcome ?? 'cancelled',
      failure: answer?.outcome === 'failed' ? clipFailure(answer.failure) : null,
      ...(answer?.by === undefined ? {} : { by: clip(answer.by) }),
      ...(answer?.verified === true ? { verified: true } : {}),
      ...(answer?.comment === undefined ? {} : { comment: clip(answer.comment) }),
      ...(fields === undefined ? {} : { fields }),
      ...(output === null ? {} : { output }),
    },
  });
}
