/** What `runStage` is called with. It stands in history once for each attempt, so it carries as little as it can. */
import type { InlineOrRef, StageCall, UpstreamOutputs, WholeStageCall } from '../../activities/contract.ts';
import type { Command } from '../../domain/pipeline/command.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import type { MachineStage } from '../../domain/pipeline/machine-plan.ts';

type RunStage = Extract<Command, { type: 'run-stage' }>;

export function stageCall(
  runId: string,
  stage: MachineStage,
  command: RunStage,
  events: readonly NewRunEvent[],
): StageCall {
  const { attempt, generation, lease } = command;
  return {
    runId,
    stage: stage.id,
    instance: [],
    attempt,
    generation,
    lease,
    upstream: taken(stage, command.upstream),
    events,
  };
}

/** Of behaviour 0. A host's worker of an earlier build knows no other. */
export function wholeStageCall(
  runId: string,
  input: InlineOrRef | null,
  plan: Plan,
  { stageId, generation, lease, execKey, attempt, upstream, ...command }: RunStage,
  events: readonly NewRunEvent[],
): WholeStageCall {
  const stage = plan.stages.find(({ id }) => id === stageId)!;
  const scope = plan.scopes.find(({ id }) => id === command.scope)!;
  return {
    runId,
    stage,
    scope,
    generation,
    lease,
    execKey,
    attempt,
    input: stage.input.kind === 'run-input' ? input : null,
    upstream,
    events,
  };
}

/** An earlier stage may have hundreds of outputs of which this one takes one. */
function taken({ takes }: MachineStage, upstream: RunStage['upstream']): Readonly<Record<string, UpstreamOutputs>> {
  const entries = takes.map(({ stage: source, output, outputs }): [string, UpstreamOutputs] => {
    const result = upstream[source]!;
    const named = Object.entries(result.outputs).filter(([name]) => outputs.includes(name));
    return [source, { output: output ? result.output : null, outputs: Object.fromEntries(named) }];
  });
  return Object.fromEntries(entries);
}
