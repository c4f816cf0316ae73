/** The argument of `runStage`. History contains it once for each attempt, so it is as small as possible. */
import type { StageCall, UpstreamOutputs } from '../../activities/contract.ts';
import type { Command } from '../../domain/pipeline/command.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import type { MachineStage } from '../../domain/pipeline/machine-plan.ts';
import type { VmLease } from '../../domain/run/vm-lease.ts';
import { createMapping, valueAt } from '../../domain/units/mapping.ts';

type RunStage = Extract<Command, { type: 'run-stage' }>;

export function stageCall(
  runId: string,
  stage: MachineStage,
  command: RunStage,
  events: readonly NewRunEvent[],
): StageCall {
  const { attempt, generation } = command;
  return {
    runId,
    stage: stage.id,
    instance: [],
    attempt,
    generation,
    lease: omitQueue(command.lease),
    upstream: selectUpstream(stage, command.upstream),
    events,
  };
}

/** Leaves the queue out, because it is the queue of the call itself. */
export function omitQueue(lease: VmLease | null): VmLease | null {
  if (lease === null || lease.queue === undefined) return lease;
  const { queue: _, ...rest } = lease;
  return rest;
}

/** Selects the outputs that the stage takes: an earlier stage may have hundreds of others. */
export function selectUpstream(
  { takes }: MachineStage,
  upstream: RunStage['upstream'],
): Readonly<Record<string, UpstreamOutputs>> {
  const taken = new Set(takes.map(({ stage }) => stage));
  // The parts of a merge that was the input of a stage without an output.
  const parts = Object.entries(upstream).filter(([source]) => !taken.has(source));
  const entries = takes.map(({ stage: source, output, outputs }): [string, UpstreamOutputs] => {
    const result = valueAt(upstream, source)!;
    const named = Object.entries(result.outputs).filter(([name]) => outputs.includes(name));
    return [source, { output: output ? result.output : null, outputs: createMapping(named) }];
  });
  return createMapping([...entries, ...parts]);
}

/** The summary of an attempt, for the Temporal UI. */
export function stageSummary({ id, mocked, played }: MachineStage, attempt: number): string {
  const notes = [
    ...(mocked === true ? ['mocked'] : []),
    ...(played === true ? ['mock agent'] : []),
    ...(attempt === 1 ? [] : [`attempt ${attempt}`]),
  ];
  return notes.length === 0 ? id : `${id} (${notes.join(', ')})`;
}
