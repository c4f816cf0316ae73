/** Starts stages, once their conditions hold and there is room. */
import type { Draft } from './draft.ts';
import { isTimeFound } from './machine-plan.ts';
import { execKeyOf } from './stage-keys.ts';
import { collectEnds, upstreamOf } from './upstream.ts';

/** Starts ready stages in plan order while there is room. */
export function startReadyStages(draft: Draft): void {
  draft.startWhileRoom((stage) => startInScope(draft, stage, draft.index.scopeOf(stage)!));
}

/** False: its VM does not exist yet. */
function startInScope(draft: Draft, stage: number, scope: number): boolean {
  const { phase, generation } = draft.scope(scope);
  const shared = draft.index.isShared(scope);
  if (shared && phase === 'idle') {
    draft.setScope(scope, { phase: 'acquiring' });
    const resumes = draft.hasGivenWork(scope) ? { resumes: true as const } : {};
    draft.commands.push({ type: 'acquire-vm', scope: draft.plan.scopes[scope]!.id, generation, ...resumes });
  }
  if (phase !== (shared ? 'ready' : 'idle')) return false;
  draft.enter(scope);
  startStage(draft, stage);
  return true;
}

export function startStage(draft: Draft, stage: number): void {
  const { id, doing, scope, wait } = draft.plan.stages[stage]!;
  const attempt = draft.stage(stage).attempt + 1;
  const upstream = upstreamOf(draft, stage);
  switch (doing) {
    case 'ask':
      draft.setStage(stage, { phase: 'asking', attempt });
      draft.commands.push({ type: 'ask', stageId: id, attempt, upstream });
      break;
    case 'wait':
      draft.setStage(stage, { phase: 'sleeping', attempt });
      if (isTimeFound(wait)) draft.commands.push({ type: 'find-time', stageId: id, attempt, upstream });
      else draft.commands.push({ type: 'wait', stageId: id, execKey: execKeyOf(id, attempt), attempt });
      break;
    case 'run': {
      const vm = scope === null ? null : draft.scope(draft.scopeIndex(scope));
      draft.setStage(stage, { phase: 'running', attempt });
      draft.commands.push({
        type: 'run-stage',
        stageId: id,
        execKey: execKeyOf(id, attempt),
        attempt,
        scope,
        generation: vm?.generation ?? 0,
        lease: vm?.lease ?? null,
        upstream,
      });
      break;
    }
  }
}

/** @param reads  ids of the stages whose ends the condition reads */
export function evaluateCondition(draft: Draft, stage: number, reads: readonly string[]): void {
  const evaluation = draft.stage(stage).evaluations + 1;
  draft.setStage(stage, { phase: 'deciding', evaluations: evaluation });
  const upstream = collectEnds(draft, stage, reads);
  draft.commands.push({ type: 'evaluate', stageId: draft.plan.stages[stage]!.id, evaluation, upstream });
}
