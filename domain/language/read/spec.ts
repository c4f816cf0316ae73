/**
 * A Spec is the text of an author as values: unresolved, without defaults, each with its place. Values that could not
 * be read are absent (`null`, or left out of a list), and diagnostics report them. Its types follow from the tables of
 * the grammar, which also document each value.
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
  /** The place of the section, for mistakes that concern it as a whole. */
  readonly sectionAt: Position;
  /** The parts that stages of the file can use by name, the same for each stage. */
  readonly parts: readonly PartSpec[];
  /** Facts that the text leaves open, because some of it could not be read; conclusions from them are left out. */
  readonly gaps: readonly Gap[];
}

/** A part of the same file. */
export interface PartSpec {
  readonly name: Located<string>;
  /** The part as the spec of a file of its own; null: it could not be read. */
  readonly spec: Spec | null;
}

/** The content of the section of a kind; for `kind: sandbox`, an empty VM. */
export interface SectionSpec extends FieldsOf<Pick<typeof WORKFLOW.keys, 'output_step' | 'checkpoint'>> {
  /** Steps of a workflow or boxes of a pipeline, in the order of the text; for other kinds, the only stage. */
  readonly stages: readonly StageSpec[];
  readonly lostNames: LostNames;
  /** Null means every box in order. */
  readonly pipelineStages: readonly PipelineStageSpec[] | null;
}

/** Names of stages that could not be read: a reference to one of them is not a mistake. */
export interface LostNames {
  /** The names as they were written. */
  readonly written: ReadonlySet<string>;
  /** True if some stages have not even a name that could be read. */
  readonly hasMore: boolean;
}

/** A command, also if it was written as a text. */
export interface CommandSpec extends Omit<WholeOf<typeof RUN.keys>, 'at' | 'program' | 'text'> {
  readonly program: Located<string>;
  /** Null: the command was written as a mapping. */
  readonly script: Script | null;
}

export interface StageSpec extends Omit<FieldsOf<Omit<StageKeys, 'name'>>, 'run'> {
  readonly name: Located<string>;
  readonly run: CommandSpec | null;
  /** The keys that only `kind: agent` has, in addition to those of a box with a prompt. */
  readonly agent: Pick<FieldsOf<typeof AGENT.keys>, 'mode' | 'messaging'> | null;
  /** The VM of `kind: sandbox`. */
  readonly isShell: boolean;
}

export interface SandboxSpec extends WholeOf<typeof SANDBOX.keys> {}

export interface MountSpec extends WholeOf<typeof MOUNT.keys> {}

export type PipelineStageSpec = NonNullable<FieldsOf<typeof PIPELINE.keys>['pipelineStages']>[number];
