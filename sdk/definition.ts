/** What authors write in TypeScript; each piece becomes the same words as in YAML, so that one compiler checks both. */
import type { IsolationLevel, MountMode, SandboxMode } from '../domain/plan/plan.ts';

/** A stage's command: a program and its arguments. */
export type Command = readonly [program: string, ...args: (string | number)[]];

export interface SandboxOptions {
  /** `mock` runs nothing for real and has to be asked for. */
  readonly mode?: SandboxMode;
  /** The weakest isolation that is accepted; `microvm` where nothing is said. */
  readonly isolation?: IsolationLevel;
  /** 128 to 65536; 512 where nothing is said. */
  readonly memoryMib?: number;
  readonly vcpus?: number;
  /** Of `/workspace`, `/tmp` and home together. */
  readonly diskMib?: number;
  readonly env?: Env;
  readonly mounts?: readonly Mount[];
}

export interface Mount {
  /** Relative paths start from `baseDir` of `compile`. */
  readonly host: string;
  readonly guest: string;
  /** `ro` where nothing is said; `rw` is copied in before a stage and back after its success. */
  readonly mode?: MountMode;
}

/** An empty text means the variable of that name on the host: write `fromHost`. */
export type Env = Readonly<Record<string, string | number | boolean>>;

/** Takes the host's variable of the same name when the stage runs; its value is never stored. */
export const fromHost = '';

/** Refers to a parameter, in a program, an argument or a variable: `` `hello ${param('name')}` ``. */
export function param(name: string): string {
  return `\${{ params.${name} }}`;
}

/** A parameter's default, or what is said about it; without a default each run has to give it. */
export type Param =
  | string
  | number
  | boolean
  | { readonly default?: string | number | boolean; readonly description?: string };

/** Named outputs: where each lies in the guest. */
export type Outputs = Readonly<Record<string, string>>;

/** A named output of a stage; made by `stage.output(name)`. */
export interface OutputRef {
  readonly stage: string;
  readonly output: string;
}

export interface Input {
  readonly from: OutputRef;
  /** `/workspace/input` where nothing is said. */
  readonly guest?: string;
}

interface StageOptions<O extends Outputs> {
  readonly cwd?: string;
  readonly env?: Env;
  readonly inputs?: readonly Input[];
  readonly outputs?: O;
  /** The file whose bytes are the stage's output instead of what it prints. */
  readonly outputFile?: string;
  /** Of one attempt; an hour where nothing is said. */
  readonly timeoutMs?: number;
  /** Of failed commands; lost VMs are tried again by themselves. One attempt where nothing is said. */
  readonly retry?: { readonly maxAttempts?: number; readonly backoffMs?: number };
  readonly maxOutputMib?: number;
  readonly sandbox?: SandboxOptions;
}

export interface StepOptions<O extends Outputs> extends StageOptions<O> {
  readonly dependsOn?: readonly Step[];
  /** Its output becomes this step's standard input. */
  readonly stdinFrom?: Step;
}

export interface BoxOptions<O extends Outputs> extends StageOptions<O> {
  /** A box of an earlier stage, whose output becomes this one's standard input. */
  readonly stdinFrom?: Box;
}

interface Stage<O extends Outputs> {
  readonly name: string;
  /** In the words of the spec. */
  readonly spec: SpecObject;
  /** A named output, for the `inputs` of a later stage. */
  output(name: keyof O & string): OutputRef;
}

export interface Step<O extends Outputs = Outputs> extends Stage<O> {
  readonly kind: 'step';
}

export interface Box<O extends Outputs = Outputs> extends Stage<O> {
  readonly kind: 'box';
}

export interface FanOut {
  readonly kind: 'fan-out';
  readonly name: string | undefined;
  readonly boxes: readonly Box[];
}

/** JSON; keys with `undefined` are left out. */
export type SpecObject = { readonly [key: string]: unknown };

/** A command in the VM that the steps of a workflow share, or in its own when it has a `sandbox`. */
export function step<const O extends Outputs = Record<never, string>>(
  name: string,
  command: Command,
  options: StepOptions<O> = {},
): Step<O> {
  const spec = {
    ...stageSpec(name, command, options, options.stdinFrom?.name),
    depends_on: options.dependsOn?.map((each) => each.name),
  };
  return { kind: 'step', name, spec, output: (output) => ({ stage: name, output }) };
}

/** A command in a VM of its own. */
export function box<const O extends Outputs = Record<never, string>>(
  name: string,
  command: Command,
  options: BoxOptions<O> = {},
): Box<O> {
  return {
    kind: 'box',
    name,
    spec: stageSpec(name, command, options, options.stdinFrom?.name),
    output: (output) => ({ stage: name, output }),
  };
}

/** Boxes that run side by side. The next stage finds `[{"name", "output"}, …]` of them as its input; after the last stage it is the run's result. */
export function fanOut(boxes: readonly Box[], options: { readonly name?: string } = {}): FanOut {
  return { kind: 'fan-out', name: options.name, boxes };
}

function stageSpec(
  name: string,
  [program, ...args]: Command,
  options: StageOptions<Outputs>,
  stdinFrom: string | undefined,
): SpecObject {
  const { outputs, inputs, retry, sandbox } = options;
  return {
    name,
    run: { program, args, stdin_from: stdinFrom, cwd: options.cwd },
    env: options.env,
    inputs: inputs?.map(({ from, guest }) => ({ from: `${from.stage}.${from.output}`, guest })),
    outputs:
      outputs === undefined ? undefined : Object.entries(outputs).map(([output, guest]) => ({ name: output, guest })),
    output_file: options.outputFile,
    timeout_secs: seconds(options.timeoutMs),
    retry:
      retry === undefined ? undefined : { max_attempts: retry.maxAttempts, backoff_secs: seconds(retry.backoffMs) },
    max_output_mb: options.maxOutputMib,
    sandbox: sandboxSpec(sandbox),
  };
}

export function sandboxSpec(sandbox: SandboxOptions | undefined): SpecObject | undefined {
  if (sandbox === undefined) return undefined;
  const { mode, isolation, memoryMib, vcpus, diskMib, env, mounts } = sandbox;
  return { mode, isolation, memory_mb: memoryMib, vcpus, disk_mb: diskMib, env, mounts };
}

function seconds(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : ms / 1_000;
}
