/** The options that stages with a VM share, whatever their work. */
import type { JsonValue } from '../../domain/plan/plan.ts';
import { DEFAULTS_KEYS, INPUT_KEYS, MOCK_KEYS, RETRY_KEYS, WORKSPACE_KEYS } from '../known-options.ts';
import { checkList, checkOptions, nameOf, secondsOf, formatValue } from '../options.ts';
import { type Items, writeItems } from './items.ts';
import { type SandboxOptions, writeSandbox } from './sandbox.ts';
import type { Box, OutputRef, Outputs, SpecObject, Step } from './stage.ts';
import type { Env } from './values.ts';

export interface Input {
  readonly from: OutputRef;
  /** Default: `/workspace/input`. */
  readonly guest?: string;
  /** True: the input is absent if the stage was passed. Required for an output of a stage with `when`. */
  readonly optional?: boolean;
}

export interface Retry {
  /** Total number of attempts. Default: 1. */
  readonly maxAttempts?: number;
  /** The same pause after each failed attempt; not with the next three. */
  readonly backoffMs?: number;
  /** The pause after the first failed attempt. */
  readonly initialMs?: number;
  /** The longest pause. Default: a day. */
  readonly maxMs?: number;
  /** Factor between one pause and the next. Default: 1. */
  readonly backoff?: number;
  /** Failures that are final: error codes, such as `stage/timeout`, or `exit:N`. */
  readonly nonRetryable?: readonly string[];
}

/** Defaults of all commands of a definition; a step or box can override each. */
export interface StageDefaults {
  /** A step or box may set these names to other values. */
  readonly env?: Env;
  readonly timeoutMs?: number;
  readonly retry?: Retry;
  readonly maxOutputMib?: number;
}

/** A Standard JSON Schema; the function that gets another schema throws. */
export interface OutputSchema<R = unknown> {
  readonly '~standard': {
    readonly vendor: string;
    readonly types?: { readonly input: R } | undefined;
    readonly jsonSchema?: { readonly input: (options: { readonly target: 'draft-2020-12' }) => unknown };
  };
}

/** The result of a stage in a run that mocks it: `voidbox run --mock`. */
export interface Mock {
  /** The stage's output: a text as it is, any other value as JSON. Default: empty. */
  readonly output?: JsonValue;
  /** Default: 0. Any other exit code fails the stage. */
  readonly exitCode?: number;
}

/** One of `git` and `from`. */
export interface Workspace {
  /** A repository: its top folder, absolute or from the definition's folder, or an address that begins with `https://`. */
  readonly git?: string;
  /** A branch, tag or commit. Default: the commit that is checked out. */
  readonly ref?: string;
  /** Includes files that are neither committed nor ignored. Default: false. */
  readonly includeDirty?: boolean;
  /** An earlier stage whose workspace this stage continues. */
  readonly from?: Step | Box;
  /** The folder in the guest. Default: `/workspace/repository`. */
  readonly guest?: string;
  /** `none`: the stage leaves no changes and passes no workspace on. Default: `keep`. */
  readonly changes?: 'keep' | 'none';
  /** A folder of the repository that is the working folder. Default: the top folder. */
  readonly subfolder?: string;
}

export interface StageOptions<O extends Outputs, R = unknown> {
  /** A condition in CEL, such as `stages.build.json.ok`: if it does not hold, the stage is passed. */
  readonly when?: string;
  readonly cwd?: string;
  readonly env?: Env;
  /** Variables of the host that this command gets; a run starts only if all are set. */
  readonly secrets?: readonly string[];
  readonly inputs?: readonly Input[];
  readonly outputs?: O;
  /** The file whose bytes are the stage's output instead of its standard output. */
  readonly outputFile?: string;
  /** Time limit of one attempt. Default: an hour. */
  readonly timeoutMs?: number;
  /** Attempts of a failed command; lost VMs are replaced automatically. Default: one attempt. */
  readonly retry?: Retry;
  /** Its failure is tolerated: stages that depend on it still start, and the run can succeed. */
  readonly continueOnError?: boolean;
  /** It runs after all other stages have ended, whatever their outcome, also if the run is cancelled. */
  readonly finally?: boolean;
  readonly maxOutputMib?: number;
  readonly sandbox?: SandboxOptions;
  /** Schema of its output as JSON, or of the output of each item: any Standard Schema that exports JSON Schema, such as one of zod or ArkType. */
  readonly outputSchema?: OutputSchema<R>;
  /** A git repository that is the working folder of the stage; `voidbox apply` brings its changes back. */
  readonly workspace?: Workspace;
  /** Its result in a run with `--mock`; without `--mock` it has no effect. */
  readonly mock?: Mock;
  /** The command runs once for each item of this list, in a VM of its own; the stage's output is the list of results. */
  readonly forEach?: Items;
  /** With `forEach`: items at the same time. Default: the definition's `maxParallel`. */
  readonly maxParallel?: number;
  /** With `forEach`: once more items have failed than `allowFailures`, the others end. Default: false. */
  readonly failFast?: boolean;
  /** With `forEach`: the stage succeeds if at most this many items fail. Default: 0. */
  readonly allowFailures?: number;
}

/** Options that only commands have. */
export type OfCommands = 'cwd' | 'finally' | 'forEach' | 'maxParallel' | 'failFast' | 'allowFailures';

export function writeCommonOptions(options: StageOptions<Outputs>, of: string): SpecObject {
  const { outputs, inputs, retry, sandbox, mock } = options;
  if (inputs !== undefined) checkList(`\`inputs\` ${of}`, inputs);
  return {
    when: options.when,
    env: options.env,
    secrets: options.secrets,
    inputs: inputs?.map((input) => writeInput(input, of)),
    outputs:
      outputs === undefined ? undefined : Object.entries(outputs).map(([output, guest]) => ({ name: output, guest })),
    output_file: options.outputFile,
    timeout_secs: secondsOf(options.timeoutMs),
    retry: writeRetry(retry, of),
    continue_on_error: options.continueOnError,
    finally: options.finally,
    max_output_mb: options.maxOutputMib,
    sandbox: writeSandbox(sandbox),
    output_schema: writeJsonSchema(options.outputSchema),
    workspace: writeWorkspace(options.workspace, of),
    mock: writeMock(mock, of),
  };
}

type EachOptions = Pick<StageOptions<Outputs>, 'forEach' | 'maxParallel' | 'failFast' | 'allowFailures'>;

export function writeForEach({ forEach, maxParallel, failFast, allowFailures }: EachOptions, of: string): SpecObject {
  return {
    for_each: forEach === undefined ? undefined : writeItems(forEach, `\`forEach\` ${of}`),
    max_parallel: maxParallel,
    fail_fast: failFast,
    allow_failures: allowFailures,
  };
}

function writeInput(input: Input, of: string): SpecObject {
  checkOptions(`an input ${of}`, input, INPUT_KEYS);
  const { from, guest, optional } = input;
  const given: unknown = from;
  if (typeof given !== 'object' || given === null || !('stage' in given && 'output' in given))
    throw new TypeError(
      `\`from\` of an input ${of}: an output is needed, got ${formatValue(given)}; write \`stage.output("name")\``,
    );
  return { from: `${from.stage}.${from.output}`, guest, optional };
}

function writeWorkspace(workspace: Workspace | undefined, of: string): unknown {
  if (workspace === undefined) return undefined;
  checkOptions(`\`workspace\` ${of}`, workspace, WORKSPACE_KEYS);
  const { git, ref, includeDirty, from, guest, subfolder, changes } = workspace;
  return {
    git,
    from: from === undefined ? undefined : nameOf(`\`from\` of \`workspace\` ${of}`, from),
    ref,
    include_dirty: includeDirty,
    guest,
    changes,
    subfolder,
  };
}

export function writeMock(mock: Mock | undefined, of: string): unknown {
  if (mock === undefined) return undefined;
  checkOptions(`\`mock\` ${of}`, mock, MOCK_KEYS);
  return { output: mock.output, exit_code: mock.exitCode };
}

/** A plan is data, so checks of a schema that its JSON Schema does not contain would be lost. */
export function writeJsonSchema(schema: OutputSchema | undefined): unknown {
  if (schema === undefined) return undefined;
  // An author of JavaScript may pass any value.
  const standard = (schema as Partial<OutputSchema>)['~standard'];
  if (standard === undefined)
    throw new TypeError('`outputSchema` is not a Standard Schema: use a library such as zod or ArkType');
  const { jsonSchema, vendor } = standard;
  if (jsonSchema === undefined)
    throw new TypeError(
      `\`outputSchema\` is a schema of ${vendor} that exports no JSON Schema, which the plan needs: use a version of it that implements Standard JSON Schema, as recent versions of zod and ArkType do`,
    );
  return jsonSchema.input({ target: 'draft-2020-12' });
}

export function writeDefaults(defaults: StageDefaults | undefined, of: string): SpecObject | undefined {
  if (defaults === undefined) return undefined;
  checkOptions(`\`defaults\` ${of}`, defaults, DEFAULTS_KEYS);
  const { env, timeoutMs, retry, maxOutputMib } = defaults;
  return {
    env,
    timeout_secs: secondsOf(timeoutMs),
    retry: writeRetry(retry, `of \`defaults\` ${of}`),
    max_output_mb: maxOutputMib,
  };
}

function writeRetry(retry: Retry | undefined, of: string): SpecObject | undefined {
  if (retry === undefined) return undefined;
  checkOptions(`\`retry\` ${of}`, retry, RETRY_KEYS);
  return {
    max_attempts: retry.maxAttempts,
    backoff_secs: secondsOf(retry.backoffMs),
    initial_secs: secondsOf(retry.initialMs),
    max_secs: secondsOf(retry.maxMs),
    backoff: retry.backoff,
    non_retryable: retry.nonRetryable,
  };
}
