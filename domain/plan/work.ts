/** What the rest of the code asks about a stage's work: one function a question, each with a case for every kind. */
import type { CommandWork, EdgePlan, EnvPlan, StagePlan, WorkPlan } from './plan.ts';

/** How the run machine has it done: by an activity, or by asking somebody and waiting for the answer. */
export type Doing = 'run' | 'ask';

export function doingOf(work: WorkPlan): Doing {
  switch (work.kind) {
    case 'command':
      return 'run';
  }
}

/** Whether the work happens in a VM, so that its stage has a scope. */
export function needsVm(work: WorkPlan): boolean {
  switch (work.kind) {
    case 'command':
      return true;
  }
}

/** The stages whose output the work itself reads, beside the stage's `input` and `inputs`. */
export function outputsReadBy(work: WorkPlan): readonly string[] {
  switch (work.kind) {
    case 'command':
      return work.stdin.kind === 'stage-output' ? [work.stdin.stage] : [];
  }
}

/** Variables of the guest's environment; those of the host among them are resolved where the work is done. */
export function environmentOf(work: WorkPlan): readonly EnvPlan[] {
  switch (work.kind) {
    case 'command':
      return work.env;
  }
}

/** The command line, for people. */
export function describeWork(work: WorkPlan): string {
  switch (work.kind) {
    case 'command':
      return [work.program, ...work.args].join(' ');
  }
}

/** The command that runs first in the stage's VM. */
export function commandOf(work: WorkPlan): CommandWork {
  switch (work.kind) {
    case 'command':
      return work;
  }
}

/** Names of the host variables that these stages read, each once, in order. */
export function hostVariablesOf(stages: readonly Pick<StagePlan, 'work'>[]): readonly string[] {
  const names = stages.flatMap(({ work }) =>
    environmentOf(work).flatMap(({ value }) => (value.kind === 'from-host' ? [value.fromHost] : [])),
  );
  return [...new Set(names)];
}

export function edgesOnSuccess(stages: readonly string[]): readonly EdgePlan[] {
  return stages.map((stage) => ({ stage, on: 'success' }));
}

/** The stages before this one, whatever it waits for of them. */
export function stagesBefore({ after }: Pick<StagePlan, 'after'>): readonly string[] {
  return after.map(({ stage }) => stage);
}
