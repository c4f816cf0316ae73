/** The stages that the functions of a definition return. Each holds the same keys as in YAML, so one compiler checks both. */
import type { OnLimit } from '../../domain/plan/plan.ts';

/** JSON; keys with `undefined` are left out. */
export type SpecObject = { readonly [key: string]: unknown };

/** Named outputs: where each lies in the guest. */
export type Outputs = Readonly<Record<string, string>>;

/** A named output of a stage; made by `stage.output(name)`. */
export interface OutputRef {
  readonly stage: string;
  readonly output: string;
}

interface Stage<O extends Outputs, R> {
  readonly name: string;
  /** The type of its output. Only types use it; no stage has a value. */
  readonly '~result'?: R;
  /** In the words of the spec. */
  readonly spec: SpecObject;
  /** A named output, for the `inputs` of a later stage. */
  output(name: keyof O & string): OutputRef;
}

export interface Step<O extends Outputs = Outputs, R = unknown> extends Stage<O, R> {
  readonly kind: 'step';
}

export interface Box<O extends Outputs = Outputs, R = unknown> extends Stage<O, R> {
  readonly kind: 'box';
}

/** A stage that asks people; its output is their answer, as JSON. */
export interface Approval {
  readonly kind: 'approval';
  readonly name: string;
  /** In the words of the spec. */
  readonly spec: SpecObject;
}

/** A stage that lets time pass; it has no output. */
export interface Wait {
  readonly kind: 'wait';
  readonly name: string;
  /** In the words of the spec. */
  readonly spec: SpecObject;
}

/** Another spec as a part of this one; its output is the output of that spec. */
export interface Part {
  readonly kind: 'part';
  readonly name: string;
  /** In the words of the spec. */
  readonly spec: SpecObject;
}

/** The result of `defineWorkflow` or `definePipeline`. */
export interface DefinedPart {
  readonly name: string;
  readonly source: string;
}

export interface FanOut {
  readonly kind: 'fan-out';
  readonly name: string | undefined;
  readonly boxes: readonly (Box | Approval | Wait | Part)[];
}

/** Boxes that run again and again: see `loop`. */
export interface Loop {
  readonly kind: 'loop';
  readonly name: string;
  readonly boxes: readonly (Box | Approval | Wait | Part)[];
  readonly options: LoopOptions;
}

export interface LoopOptions {
  /** A condition in CEL over the boxes of a visit and earlier ones, such as `stages.judge.json.score >= 8`: the loop ends once it holds. */
  readonly until: string;
  /** 1 to 1000. */
  readonly maxVisits: number;
  /** After the last visit: `fail`, as `loop/limit`, or `pass`, with the output of that visit. Default: `fail`. */
  readonly onLimit?: OnLimit;
}
