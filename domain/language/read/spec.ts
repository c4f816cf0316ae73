/**
 * A Spec is what an author wrote: unresolved, without defaults, every value with its place. Values that
 * could not be read are absent (`null`, or left out of a list); their diagnostics say so. What it holds comes from
 * the tables of the grammar; what each value means is said there.
 */
import type { AGENT } from '../grammar/agent-table.ts';
import type { MOUNT, SANDBOX } from '../grammar/sandbox-table.ts';
import type { PIPELINE, SECTION_KINDS, SPEC, WORKFLOW } from '../grammar/spec-table.ts';
import type { RUN, STAGE } from '../grammar/stage-table.ts';
import type { FieldsOf, WholeOf } from '../grammar/table.ts';
import type { PlanKind } from '../../plan/plan.ts';
import type { Script } from '../script/read-script.ts';
import type { Gap } from '../text/diagnostics.ts';
import type { Located, Position } from '../text/tree.ts';

export type { EnvSpec, ParamSpec } from '../grammar/table.ts';

type SectionKind = (typeof SECTION_KINDS)[number];
type RootKeys = typeof SPEC.keys;
type StageKeys = typeof STAGE.keys;

export interface Spec
  extends FieldsOf<Omit<RootKeys, 'api_version' | 'kind' | 'name' | 'parts' | SectionKind>>, SectionSpec {
  readonly file: string;
  readonly kind: PlanKind;
  readonly name: Located<string>;
  /** Where the section stands, for mistakes that concern it as a whole. */
  readonly sectionAt: Position;
  /** What stages of the file can use by name, the same for each of them. */
  readonly parts: readonly PartSpec[];
  /** What could not be read, and would be missed in conclusions. */
  readonly gaps: readonly Gap[];
}

/** A part of the same file. */
export interface PartSpec {
  readonly name: Located<string>;
  /** As if it stood in a file of its own; null: it could not be read. */
  readonly spec: Spec | null;
}

/** What the section of a kind says; `kind: sandbox` has none. */
export interface SectionSpec extends FieldsOf<Pick<typeof WORKFLOW.keys, 'output_step'>> {
  /** Steps of a workflow or boxes of a pipeline, in the order of the text; else the only one. */
  readonly stages: readonly StageSpec[];
  readonly lostNames: LostNames;
  /** Null is every box in order. */
  readonly pipelineStages: readonly PipelineStageSpec[] | null;
}

/** Names of stages that could not be read: who refers to one of them has made no mistake. */
export interface LostNames {
  /** As they were written. */
  readonly written: ReadonlySet<string>;
  /** Of some stages not even that is known. */
  readonly hasMore: boolean;
}

/** A command, also one that was written as a text. */
export interface CommandSpec extends Omit<WholeOf<typeof RUN.keys>, 'at' | 'program' | 'text'> {
  readonly program: Located<string>;
  /** Null: it was written as a mapping. */
  readonly script: Script | null;
}

export interface StageSpec extends Omit<FieldsOf<Omit<StageKeys, 'name'>>, 'run'> {
  readonly name: Located<string>;
  readonly run: CommandSpec | null;
  /** What `kind: agent` has beside what boxes with a prompt have. */
  readonly agent: Pick<FieldsOf<typeof AGENT.keys>, 'mode' | 'messaging'> | null;
  /** The VM of `kind: sandbox`. */
  readonly isShell: boolean;
}

export interface SandboxSpec extends WholeOf<typeof SANDBOX.keys> {}

export interface MountSpec extends WholeOf<typeof MOUNT.keys> {}

export type PipelineStageSpec = NonNullable<FieldsOf<typeof PIPELINE.keys>['pipelineStages']>[number];
