/** The stages with `finally`: they begin after all others, and have a time limit. */
import type { StageFailure } from '../run/stage-result.ts';
import { clip } from './carried-text.ts';
import type { Draft } from './draft.ts';
import { settle, skip } from './ends.ts';
import { FINALLY_TIMER } from './stage-keys.ts';
import { isEnd } from './state.ts';

/** Starts them once no other stage is open. They have their own VMs, so a lost VM makes no other stage run again. */
export function beginFinally(draft: Draft): void {
  const { finallyStages } = draft.index;
  if (draft.finallyBegun || finallyStages.length === 0 || draft.open > finallyStages.length) return;
  if (draft.open > finallyStages.filter((stage) => !isEnd(draft.stage(stage).phase)).length) return;
  draft.finallyBegun = true;
  const { graceMs } = draft.plan;
  if (graceMs !== undefined && draft.finallyStop === null)
    draft.commands.push({ type: 'start-timer', id: FINALLY_TIMER, delayMs: graceMs });
  for (const stage of finallyStages) settle(draft, stage);
}

/**
 * Cancels the running ones, and starts no more of them.
 * @param failure  the failure of the run, unless it already has one; null: a person cancels them
 */
export function stopFinally(draft: Draft, why: string, failure: StageFailure | null): void {
  if (draft.finallyStop !== null) return;
  draft.finallyStop = clip(why);
  if (!draft.finallyBegun) return;
  const open = draft.index.finallyStages.filter((stage) => !isEnd(draft.stage(stage).phase));
  if (failure !== null && open.length > 0) draft.noteFailure(open[0]!, failure);
  const running = open.filter((stage) => draft.stage(stage).phase === 'running');
  for (const stage of open) if (draft.stage(stage).phase !== 'running') skip(draft, stage, 'cancel', draft.finallyStop);
  const execKeys = running.map((stage) => draft.execKey(stage));
  if (execKeys.length > 0) draft.commands.push({ type: 'cancel-stages', execKeys, acquiring: [] });
}
