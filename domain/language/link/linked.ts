/** The relations between the stages of a spec, after its names are resolved. */
import type { InputPlan, OutputPlan } from '../../plan/plan.ts';
import type { Spec } from '../read/spec.ts';
import type { Located } from '../text/tree.ts';

/** The relations of one stage; numbers are indices into `spec.stages`. */
export interface Links {
  readonly dependsOn: readonly number[];
  /** The stages of which one has to fail; empty: the stage waits for no failure. */
  readonly onFailure: readonly number[];
  readonly input: InputPlan;
  readonly stdin: number | null;
  /** The stage whose output is the list of items. */
  readonly items: number | null;
  /** In the order of `inputs`, without inputs whose name was not found. */
  readonly inputs: readonly { readonly source: number; readonly output: string; readonly index: number }[];
  /** The stage whose workspace this stage continues. */
  readonly workspace: number | null;
}

export interface LinkResult {
  /** Null: the stage never runs and is not in the plan. */
  readonly links: readonly (Links | null)[];
  /** Null: a mistake was reported. */
  readonly output: OutputPlan | null;
}

/** For each stage, the stages that its condition names, and those that its texts name. */
export interface Expressions {
  readonly conditions: readonly (readonly Located<string>[])[];
  readonly texts: readonly (readonly Located<string>[])[];
}

export const NO_LINKS: Links = {
  dependsOn: [],
  onFailure: [],
  input: { kind: 'run-input' },
  stdin: null,
  items: null,
  inputs: [],
  workspace: null,
};

export function outputOf(spec: Spec, stage: number | null): OutputPlan | null {
  return stage === null ? null : { kind: 'stage', stage: spec.stages[stage]!.name.value };
}

export function unique(numbers: readonly number[]): readonly number[] {
  return [...new Set(numbers)].sort((a, b) => a - b);
}
