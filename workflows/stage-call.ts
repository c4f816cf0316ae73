/** What `runStage` is called with. It stands in history once for each attempt, so it carries as little as it can. */
import type { InlineOrRef, StageCall, StageRequest, UpstreamOutputs } from '../activities/contract.ts';
import type { Command } from '../domain/pipeline/command.ts';
import type { ScopePlan, StagePlan } from '../domain/plan/plan.ts';
import type { NewRunEvent } from '../domain/run/event.ts';
import { takenOf } from '../domain/pipeline/plan-index.ts';

type RunStage = Extract<Command, { type: 'run-stage' }>;

export function stageCall(runId: string, stage: StagePlan, command: RunStage, events: readonly NewRunEvent[]): StageCall {
  const { attempt, generation, lease } = command;
  return { runId, stage: stage.id, item: 0, attempt, generation, lease, upstream: taken(stage, command.upstream), events };
}

/** Of behaviour 0. A host's worker of an earlier build knows no other. */
export function wholeStageCall(
  runId: string,
  input: InlineOrRef | null,
  stage: StagePlan,
  scope: ScopePlan,
  { generation, lease, execKey, attempt, upstream }: RunStage,
  events: readonly NewRunEvent[],
): StageRequest {
  return { runId, stage, scope, generation, lease, execKey, attempt, input: stage.input.kind === 'run-input' ? input : null, upstream, events };
}

/** An earlier stage may have hundreds of outputs of which this one takes one. */
function taken(stage: StagePlan, upstream: RunStage['upstream']): Readonly<Record<string, UpstreamOutputs>> {
  const entries = Object.entries(upstream).map(([source, result]): [string, UpstreamOutputs] => {
    const { output, outputs } = takenOf(stage, source);
    const named = Object.entries(result.outputs).filter(([name]) => outputs.includes(name));
    return [source, { output: output ? result.output : null, outputs: Object.fromEntries(named) }];
  });
  return Object.fromEntries(entries);
}
