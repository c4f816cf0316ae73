/** Handles stages whose VM is lost or could not be acquired. */
import { LOST_VM_ATTEMPTS } from '../errors/code-info.ts';
import type { StageFailure } from '../run/stage-result.ts';
import type { Draft } from './draft.ts';
import { cancel, failWithoutResult, follow, retry, skip } from './ends.ts';
import { isEnd } from './state.ts';

export function loseOwnVm(draft: Draft, scope: number, stage: number, execKey: string, failure: StageFailure): void {
  const lost = draft.scope(scope).lost + 1;
  draft.setScope(scope, { lost });
  draft.release(scope);
  if (draft.mayNotStart(stage)) cancel(draft, stage);
  else if (lost > LOST_VM_ATTEMPTS) failWithoutResult(draft, stage, describeRepeatedLoss(failure, lost));
  else retry(draft, stage, execKey, `${failure.code}: ${failure.message}`, 0);
}

export function loseSharedVm(draft: Draft, scope: number, stage: number, failure: StageFailure): void {
  if (draft.cancelRequested) return cancel(draft, stage);
  const { phase, lossReason } = draft.scope(scope);
  // A second loss while draining is about the same VM.
  if (phase === 'draining') {
    if (lossReason === null) failWithoutResult(draft, stage, describeRepeatedLoss(failure, draft.scope(scope).lost));
    return;
  }
  const lost = draft.scope(scope).lost + 1;
  const final = lost > LOST_VM_ATTEMPTS;
  draft.setScope(scope, { phase: 'draining', lost, lossReason: final ? null : `${failure.code}: ${failure.message}` });
  if (final) failScope(draft, scope, describeRepeatedLoss(failure, lost), [stage]);
}

/** Fails a scope that gets no further VM: the stages that were to run now fail, and later ones are skipped. */
export function failScope(draft: Draft, scope: number, failure: StageFailure, failing: readonly number[]): void {
  const stages = draft.index.stagesOf(scope);
  // A stage that waits for the VM has not begun the attempt that fails.
  const waiting = failing.length > 0 ? [] : stages.filter((stage) => draft.stage(stage).phase === 'ready');
  // The loss also ends the other work in the VM. That is more than the failure of one stage, which may be tolerated.
  for (const stage of failing) failWithoutResult(draft, stage, failure, draft.stage(stage).attempt, false);
  for (const stage of waiting)
    if (!isEnd(draft.stage(stage).phase))
      failWithoutResult(draft, stage, failure, draft.stage(stage).attempt + 1, false);
  for (const stage of stages) {
    const { phase } = draft.stage(stage);
    if (isEnd(phase) || phase === 'running') continue;
    skip(draft, stage, 'failure', `its VM failed with ${failure.code}`);
    follow(draft, stage);
  }
}

function describeRepeatedLoss(failure: StageFailure, lost: number): StageFailure {
  return { ...failure, message: `the VM was lost ${lost} times; the last time: ${failure.message}` };
}
