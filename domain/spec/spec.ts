/**
 * A Spec is what an author wrote: unresolved, without defaults, every value with its place. Values that
 * could not be read are absent (`null`, or left out of a list); their diagnostics say so. What it holds comes from
 * the tables of the grammar; what each value means is said there.
 */
import type { MOUNT, SANDBOX } from './grammar/sandbox-table.ts';
import type { PIPELINE, SPEC, WORKFLOW } from './grammar/spec-table.ts';
import type { STAGE } from './grammar/stage-table.ts';
import type { FieldsOf, WholeOf } from './grammar/table.ts';
import type { PlanKind } from '../plan/plan.ts';
import type { Located, Position } from './tree.ts';

export type { EnvSpec, ParamSpec } from './grammar/table.ts';

type RootKeys = typeof SPEC.keys;
type StageKeys = typeof STAGE.keys;

export interface Spec extends FieldsOf<Omit<RootKeys, 'api_version' | 'kind' | 'name' | PlanKind>>, SectionSpec {
  readonly file: string;
  readonly kind: PlanKind;
  readonly name: Located<string>;
  /** Where the section stands, for mistakes that concern it as a whole. */
  readonly sectionAt: Position;
}

/** What the section of either kind says. */
export interface SectionSpec extends FieldsOf<Pick<typeof WORKFLOW.keys, 'output_step'>> {
  /** Steps of a workflow or boxes of a pipeline, in the order of the text. */
  readonly stages: readonly StageSpec[];
  /** Null is every box in order. */
  readonly pipelineStages: readonly PipelineStageSpec[] | null;
}

export interface StageSpec extends FieldsOf<Omit<StageKeys, 'name'>> {
  readonly name: Located<string>;
}

export interface SandboxSpec extends WholeOf<typeof SANDBOX.keys> {}

export interface MountSpec extends WholeOf<typeof MOUNT.keys> {}

export type PipelineStageSpec = NonNullable<FieldsOf<typeof PIPELINE.keys>['pipelineStages']>[number];
