/** What the stages of a spec are to each other, once every name in it is found. */
import type { InputPlan, OutputPlan } from '../../plan/plan.ts';
import type { Spec } from '../read/spec.ts';
import type { Located } from '../text/tree.ts';

/** Of one stage, by index into `spec.stages`. */
export interface Links {
  readonly dependsOn: readonly number[];
  /** One of these has to fail; empty: none. */
  readonly onFailure: readonly number[];
  readonly input: InputPlan;
  readonly stdin: number | null;
  /** Whose output is the list of items. */
  readonly items: number | null;
  /** In the order of `inputs`; those that name nothing are left out. */
  readonly inputs: readonly { readonly source: number; readonly output: string; readonly index: number }[];
  /** Whose workspace it goes on with. */
  readonly workspace: number | null;
}

export interface LinkResult {
  /** Null: the stage never runs and is no part of the plan. */
  readonly links: readonly (Links | null)[];
  /** Null: reported. */
  readonly output: OutputPlan | null;
}

/** Of each stage, those that its condition names, and those that its arguments and variables name. */
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
