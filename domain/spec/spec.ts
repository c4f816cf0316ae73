/**
 * A Spec is what an author wrote: unresolved, without defaults, every value with its place. Values that
 * could not be read are absent (`null`, or left out of a list); their diagnostics say so.
 */
import type { Located, Position } from './tree.ts';

export interface Spec {
  readonly file: string;
  readonly kind: 'workflow' | 'pipeline';
  readonly name: Located<string>;
  readonly params: readonly ParamSpec[];
  readonly sandbox: SandboxSpec | null;
  readonly maxParallel: number | null;
  /** Steps of a workflow or boxes of a pipeline, in the order of the text. */
  readonly stages: readonly StageSpec[];
  /** `output_step` or `output_box`. */
  readonly output: Located<string> | null;
  /** Where the section stands, for mistakes that concern it as a whole. */
  readonly sectionAt: Position;
  /** `pipeline.stages`; null is every box in order. */
  readonly pipelineStages: readonly PipelineStageSpec[] | null;
}

export interface ParamSpec {
  readonly name: string;
  readonly at: Position;
  /** Null: a run has to give it. */
  readonly defaultText: string | null;
}

export interface StageSpec {
  readonly name: Located<string>;
  /** Null when it could not be read. */
  readonly run: RunSpec | null;
  /** Workflow steps only. */
  readonly dependsOn: readonly Located<string>[];
  readonly env: readonly EnvSpec[];
  readonly inputs: readonly InputSpec[];
  readonly outputs: readonly OutputSpec[];
  readonly outputFile: Located<string> | null;
  readonly timeoutMs: number | null;
  readonly retry: { readonly maxAttempts: number | null; readonly backoffMs: number | null } | null;
  readonly maxOutputBytes: number | null;
  readonly sandbox: SandboxSpec | null;
}

export interface RunSpec {
  readonly program: Located<string>;
  readonly args: readonly Located<string>[];
  readonly stdinFrom: Located<string> | null;
  readonly cwd: Located<string> | null;
}

export interface EnvSpec {
  readonly name: string;
  readonly at: Position;
  /** An empty one as written means: the host's variable of that name. */
  readonly value: Located<string>;
}

export interface InputSpec {
  /** An output's name, or `box.output`. */
  readonly from: Located<string>;
  readonly guestPath: Located<string>;
}

export interface OutputSpec {
  readonly name: Located<string>;
  readonly guestPath: Located<string>;
}

export interface SandboxSpec {
  readonly at: Position;
  readonly mode: Located<'auto' | 'qemu' | 'mock'> | null;
  readonly isolation: Located<'microvm' | 'process' | 'none'> | null;
  readonly memoryMib: number | null;
  readonly vcpus: number | null;
  readonly diskMib: number | null;
  readonly env: readonly EnvSpec[];
  readonly mounts: readonly MountSpec[];
}

export interface MountSpec {
  readonly at: Position;
  readonly hostPath: Located<string>;
  readonly guestPath: Located<string>;
  readonly mode: 'ro' | 'rw';
}

export type PipelineStageSpec =
  | { readonly type: 'box'; readonly at: Position; readonly boxes: readonly [Located<string>] }
  | { readonly type: 'fan_out'; readonly at: Position; readonly boxes: readonly Located<string>[] };
