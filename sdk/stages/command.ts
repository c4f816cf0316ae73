/** Stages that run a command. */
import { BOX_OPTIONS, STEP_OPTIONS } from '../known-options.ts';
import { checkOptions, nameOf, namesOf, formatValue } from '../options.ts';
import { reportPlace } from '../places.ts';
import { writeCommonOptions, writeForEach, type StageOptions } from './common-options.ts';
import type { Approval, Box, Outputs, Part, SpecObject, Step, Wait } from './stage.ts';

/** A stage's command: a program and its arguments, or a text for `sh -e -c`, in which `param` and `expression` are values. */
export type Command = string | readonly [program: string, ...args: (string | number)[]];

export interface StepOptions<O extends Outputs, R = unknown> extends StageOptions<O, R> {
  readonly dependsOn?: readonly (Step | Approval | Wait | Part)[];
  /** In a workflow: it starts when one of these has failed. */
  readonly onFailure?: readonly (Step | Approval | Wait | Part)[];
  /** Its output becomes this step's standard input. */
  readonly stdinFrom?: Step | Approval | Part;
  /** It serves until the run is cancelled, without a time limit; `outputFile` is published while it does. */
  readonly service?: true;
}

export interface BoxOptions<O extends Outputs, R = unknown> extends StageOptions<O, R> {
  /** It starts when one of these has failed; put it into `aside` of the pipeline. */
  readonly onFailure?: readonly (Box | Approval | Wait | Part)[];
  /** A box of an earlier stage, whose output becomes this one's standard input. */
  readonly stdinFrom?: Box | Approval | Part;
}

/** A command in the VM that the steps of a workflow share, or in its own when it has a `sandbox`. */
export function step<const O extends Outputs = Record<never, string>, R = string>(
  name: string,
  command: Command,
  options: StepOptions<O, R> = {},
): Step<O, R> {
  const of = `of step "${name}"`;
  checkOptions(`options ${of}`, options, STEP_OPTIONS);
  const spec = {
    ...writeCommandStage(name, command, options, of),
    depends_on: namesOf(`\`dependsOn\` ${of}`, options.dependsOn),
    on_failure: namesOf(`\`onFailure\` ${of}`, options.onFailure),
    mode: options.service === true ? 'service' : undefined,
  };
  reportPlace(spec, step);
  return { kind: 'step', name, spec, output: (output) => ({ stage: name, output }) };
}

/** A command in a VM of its own. */
export function box<const O extends Outputs = Record<never, string>, R = string>(
  name: string,
  command: Command,
  options: BoxOptions<O, R> = {},
): Box<O, R> {
  const of = `of box "${name}"`;
  checkOptions(`options ${of}`, options, BOX_OPTIONS);
  const spec = {
    ...writeCommandStage(name, command, options, of),
    on_failure: namesOf(`\`onFailure\` ${of}`, options.onFailure),
  };
  reportPlace(spec, box);
  return { kind: 'box', name, spec, output: (output) => ({ stage: name, output }) };
}

function writeCommandStage(
  name: string,
  command: Command,
  options: StageOptions<Outputs> & { readonly stdinFrom?: Step | Box | Approval | Part },
  of: string,
): SpecObject {
  return {
    name,
    run: writeCommand(command, options, of),
    ...writeForEach(options, of),
    ...writeCommonOptions(options, of),
  };
}

type CommandOptions = Pick<StageOptions<Outputs>, 'cwd'> & { readonly stdinFrom?: Step | Box | Approval | Part };

function writeCommand(command: unknown, { stdinFrom, cwd }: CommandOptions, of: string): unknown {
  const beside = {
    stdin_from: stdinFrom === undefined ? undefined : nameOf(`\`stdinFrom\` ${of}`, stdinFrom),
    cwd,
  };
  if (typeof command === 'string')
    return stdinFrom === undefined && cwd === undefined ? command : { script: command, ...beside };
  if (!Array.isArray(command))
    throw new TypeError(
      `the command ${of}: a text, or a list of program and arguments is needed, got ${formatValue(command)}`,
    );
  const [program, ...args] = command as readonly (string | number)[];
  return { program, args, ...beside };
}
