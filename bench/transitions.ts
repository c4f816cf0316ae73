/** Measures what a transition of the run machine costs in CPU time of this process, without a server or a VM. */
import type { MachinePlan, MachineStage } from '../domain/pipeline/machine-plan.ts';
import type { Command } from '../domain/pipeline/command.ts';
import type { MachineEvent } from '../domain/pipeline/event.ts';
import { start, transition } from '../domain/pipeline/machine.ts';
import type { StageResult } from '../domain/run/stage-result.ts';
import type { Arm } from './measure.ts';

export const SHAPES = ['chain', 'side by side', 'in one VM'] as const;
export type Shape = (typeof SHAPES)[number];
export const SIZES = [100, 1_000, 2_000] as const;

/** At least so many transitions a round. */
const ROUND_TRANSITIONS = 20_000;

export function transitionArm(shape: Shape, stages: number): Arm<'us'> {
  const plan = planOf(shape, stages);
  runOnce(plan);
  return {
    name: `${shape}, ${stages} stages`,
    round() {
      const before = process.cpuUsage().user;
      let transitions = 0;
      while (transitions < ROUND_TRANSITIONS) transitions += runOnce(plan);
      return Promise.resolve({ us: (process.cpuUsage().user - before) / transitions });
    },
  };
}

function planOf(shape: Shape, count: number): MachinePlan {
  const ids = Array.from({ length: count }, (_, index) => `stage-${index}`);
  const isShared = shape === 'in one VM';
  const stages = ids.map((id, index): MachineStage => ({
    id,
    doing: 'run',
    scope: isShared ? 'shared' : id,
    after: shape === 'chain' && index > 0 ? [{ stage: ids[index - 1]!, on: 'success' }] : [],
    condition: null,
    takes: [],
    timeoutMs: 1_000,
    retry: { maxAttempts: 1, backoffMs: 0 },
    deadline: null,
  }));
  const scopes = isShared ? [{ id: 'shared', stages: ids }] : ids.map((id) => ({ id, stages: [id] }));
  return { name: 'bench', stages, scopes, output: { kind: 'stage', stage: ids.at(-1)! }, maxParallel: 50 };
}

/** @returns how many transitions the run took */
function runOnce(plan: MachinePlan): number {
  const pending: Command[] = [];
  let step = start(plan);
  for (let transitions = 1, at = 0; ; transitions += 1) {
    pending.push(...step.commands);
    const command = pending[at++];
    if (command === undefined) throw new Error('the run asks for nothing and has not ended');
    if (command.type === 'finish') return transitions;
    step = transition(plan, step.state, answerTo(command));
  }
}

function answerTo(command: Command): MachineEvent {
  switch (command.type) {
    case 'run-stage':
      return { type: 'stage-finished', result: createSuccess(command.stageId, command.execKey) };
    case 'acquire-vm':
      return { type: 'vm-acquired', scope: command.scope, generation: command.generation, lease: { vmKey: 'vm' } };
    case 'release-vm':
      return { type: 'vm-released', scope: command.scope, generation: command.generation };
    case 'ask':
    case 'find-time':
    case 'wait':
    case 'evaluate':
    case 'withdraw':
    case 'start-timer':
    case 'cancel-stages':
    case 'finish':
      throw new Error(`a run in which all goes well asks for no ${command.type}`);
  }
}

function createSuccess(stage: string, execKey: string): StageResult {
  return {
    stage,
    instance: [],
    attempt: 1,
    execKey,
    outcome: 'succeeded',
    failure: null,
    durationMs: 1,
    output: null,
    outputs: {},
    vm: { backend: 'mock', vmm: 'mock', isolation: 'none', accelerator: 'mock' },
    usage: {},
    command: { exitCode: 0, stdoutBytes: 0, stderrBytes: 0 },
  };
}
