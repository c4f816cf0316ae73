/** Finds the stages whose commands prepare the disk of a VM: a stage, and the earlier stages of its VM. */
import type { CommandWork, Plan, ScopePlan, StagePlan } from '../../domain/plan/plan.ts';
import { quote } from '../../domain/units/quote.ts';
import { createUsageError } from '../app-error.ts';

export interface PreparedStage {
  readonly stage: StagePlan;
  readonly work: CommandWork;
}

export interface PreparedStages {
  readonly scope: ScopePlan;
  /** In the order in which they run. */
  readonly stages: readonly PreparedStage[];
}

const NAMES_SHOWN = 20;

/** @throws AppError `cli/usage` for an unknown stage, and for a stage that needs more of a run than its VM */
export function findPreparedStages(plan: Plan, name: string): PreparedStages {
  const last = plan.stages.find(({ id }) => id === name);
  if (last === undefined) {
    const names = plan.stages.filter(({ scope }) => scope !== null).map(({ id }) => id);
    const more = names.length > NAMES_SHOWN ? ` and ${names.length - NAMES_SHOWN} more` : '';
    throw createUsageError(
      `the spec has no stage ${quote(name)}`,
      `Name one of its stages: ${names.slice(0, NAMES_SHOWN).join(', ')}${more}`,
    );
  }
  const scope = plan.scopes.find(({ id }) => id === last.scope);
  if (scope === undefined) throw refuse(last, 'it has no VM');
  refuseVm(last, scope);
  const needed = new Set<string>();
  const add = (stage: StagePlan): void => {
    needed.add(stage.id);
    for (const { stage: id, on } of stage.after) {
      const before = plan.stages.find((other) => other.id === id);
      if (before === undefined || needed.has(id)) continue;
      if (before.scope !== scope.id) throw refuse(stage, `it waits for stage ${id}, which is not in its VM`);
      if (on !== 'success') throw refuse(stage, `it runs only after a failure of stage ${id}`);
      add(before);
    }
  };
  add(last);
  const stages = plan.stages.filter(({ id }) => needed.has(id));
  return { scope, stages: stages.map((stage) => ({ stage, work: requireCommand(stage) })) };
}

function refuseVm(stage: StagePlan, { sandbox }: ScopePlan): void {
  if (sandbox.mode === 'mock') throw refuse(stage, 'its VM is simulated and has no disk');
  const writable = sandbox.mounts.find(({ mode }) => mode === 'rw');
  if (writable !== undefined)
    throw refuse(stage, `its VM has the writable mount ${writable.guestPath}, and no run copies its changes back`);
}

/** Returns the command of a stage that needs nothing of other stages and of a run. */
function requireCommand(stage: StagePlan): CommandWork {
  const { work } = stage;
  if (work.kind !== 'command') throw refuse(stage, 'it is not a command');
  if (work.service === true) throw refuse(stage, 'it is a service, which does not end');
  if (stage.each !== undefined || stage.of !== undefined) throw refuse(stage, 'it runs for each item of a list');
  if (stage.when !== null) throw refuse(stage, 'it has a condition, which only a run evaluates');
  if (stage.texts !== undefined) throw refuse(stage, 'it contains values that only a run has');
  if (stage.workspace !== undefined) throw refuse(stage, 'it has a workspace, which only a run provides');
  const takesData = work.stdin.kind !== 'none' || stage.inputs.length > 0 || stage.again !== undefined;
  if (takesData || (stage.input.kind !== 'none' && stage.input.kind !== 'run-input'))
    throw refuse(stage, 'it takes data of other stages');
  return work;
}

function refuse(stage: StagePlan, why: string): Error {
  return createUsageError(
    `stage ${stage.id} cannot prepare a disk: ${why}`,
    'Name a stage whose command needs only its VM, or use `vm.checkpoint` of `voidbox/sandbox` (docs/reference/sandbox-api.md)',
  );
}
