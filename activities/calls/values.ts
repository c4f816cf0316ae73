/** Checks the values of a call: outputs of earlier stages and the run's outcome. No unchecked value is used. */
import { CodedError } from '../../domain/errors/coded-error.ts';
import { toErrorCode } from '../../domain/errors/error-code.ts';
import { type TakenData, dataTakenBy, mayLackOutput, listTakenAgain } from '../../domain/pipeline/machine-plan.ts';
import { stageOfPlan } from '../../domain/plan/item-parts.ts';
import { planIndex } from '../../domain/pipeline/plan-index.ts';
import type { EndedStage } from '../../domain/pipeline/command.ts';
import { lastAttempt } from '../../domain/pipeline/reach.ts';
import { END_PHASES, type EndPhase, type NamedOutput } from '../../domain/pipeline/state.ts';
import { inputBehind } from '../../domain/plan/carried.ts';
import { outputNamesOf } from '../../domain/plan/workspace.ts';
import {
  type DataRef,
  type InputPlan,
  REDACTED_LIMITS,
  type RedactedData,
  type StagePlan,
} from '../../domain/plan/plan.ts';
import type { RunOutcome } from '../../domain/run/event.ts';
import type { StageFailure } from '../../domain/run/stage-result.ts';
import { isSha256 } from '../../domain/units/sha256.ts';
import { type AdmittedRun } from '../admission/admitted-run.ts';
import type { UpstreamOutputs } from '../contract.ts';
import { createMapping, valueAt } from '../../domain/units/mapping.ts';
import { quote } from '../../domain/units/quote.ts';

export type Fields = Readonly<Record<string, unknown>>;

/** Texts of failures are cut when they are made, so a longer text is invalid. */
const TEXT_CHARACTERS = 64 * 1024;
const MEDIA_TYPE = /^[\x20-\x7e]{0,256}$/;

/** @throws CodedError `call/refused` if the value is not an object */
export function fieldsOf(value: unknown, what: string): Fields {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields;
  throw new CodedError('call/refused', `${what} must be an object, got ${quote(value)}`);
}

/** Returns the ref without further fields; null if the value is not a ref. */
export function dataRefOf(value: unknown): DataRef | null {
  if (typeof value !== 'object' || value === null) return null;
  const { sha256, sizeBytes, mediaType, redacted: given } = value as Fields;
  if (typeof sha256 !== 'string' || !isSha256(sha256)) return null;
  if (typeof sizeBytes !== 'number' || !Number.isSafeInteger(sizeBytes) || sizeBytes < 0) return null;
  if (typeof mediaType !== 'string' || !MEDIA_TYPE.test(mediaType)) return null;
  if (given === undefined) return { sha256, sizeBytes, mediaType };
  const redacted = redactedOf(given);
  return redacted === null ? null : { sha256, sizeBytes, mediaType, redacted };
}

function redactedOf(value: unknown): RedactedData | null {
  if (typeof value !== 'object' || value === null) return null;
  const { variables, breaksJson } = value as Fields;
  if (!Array.isArray(variables) || variables.length > REDACTED_LIMITS.variables) return null;
  const isName = (name: unknown): name is string =>
    typeof name === 'string' && name.length <= REDACTED_LIMITS.nameCharacters;
  if (!variables.every(isName) || typeof breaksJson !== 'boolean') return null;
  return { variables: [...variables], breaksJson };
}

/**
 * Checks the outputs of earlier stages: exactly the stages that `stage` uses, and at least the outputs that it uses.
 * @param direct the data that the stage uses; for a stage that ends an item, only the data of its part
 */
export function checkUpstream(
  run: AdmittedRun,
  stage: StagePlan,
  value: unknown,
  direct: readonly TakenData[] = [...dataTakenBy(stage), ...listTakenAgain(stage)],
): Readonly<Record<string, UpstreamOutputs>> {
  const given = fieldsOf(value, 'the outputs of earlier stages');
  const isTaken = (id: string): boolean => direct.some(({ stage: source }) => source === id);
  const parts = partsBehind(run, stage.input).filter((id) => Object.hasOwn(given, id) && !isTaken(id));
  const sources = [...direct, ...parts.map((id): TakenData => ({ stage: id, output: true, outputs: [] }))];
  const stranger = Object.keys(given).find((id) => !isTaken(id) && !parts.includes(id));
  if (stranger !== undefined) throw createRefusal(run, `stage ${stage.id} takes no data of ${quote(stranger)}`);
  const taken: [string, UpstreamOutputs][] = [];
  for (const wanted of sources) {
    const source = wanted.stage;
    if (!Object.hasOwn(given, source))
      throw createRefusal(run, `stage ${stage.id} takes data of ${source}, which the call lacks`);
    const fields = fieldsOf(given[source], `the outputs of ${source}`);
    taken.push([source, outputsOf(run, stage, wanted, fields, parts.includes(source))]);
  }
  return createMapping(taken);
}

/** Returns the parts of the merge that a stage gets as its input if the stages before it have no output. */
function partsBehind(run: AdmittedRun, input: InputPlan): readonly string[] {
  const found = resolveInput(run, input);
  return input.kind === 'carry' && found.kind === 'merge' ? found.stages : [];
}

function resolveInput(run: AdmittedRun, input: InputPlan): InputPlan {
  return inputBehind(input, (id) => stageOfPlan(run.plan, id)!);
}

/**
 * Returns the input of a stage. If the stages that it carries from have no output, returns the input that the first of
 * them had.
 */
export function inputOf(
  run: AdmittedRun,
  input: InputPlan,
  upstream: Readonly<Record<string, { readonly output: DataRef | null }>>,
): InputPlan {
  if (input.kind !== 'carry' || valueAt(upstream, input.stage)?.output !== null) return input;
  const found = resolveInput(run, input);
  const missing = found.kind === 'merge' ? found.stages.find((id) => !Object.hasOwn(upstream, id)) : undefined;
  if (missing === undefined) return found;
  throw createRefusal(run, `the input of ${input.stage} is merged of ${missing}, which the call lacks`);
}

function outputsOf(
  run: AdmittedRun,
  stage: StagePlan,
  wanted: TakenData,
  given: Fields,
  isPart: boolean,
): UpstreamOutputs {
  const source = wanted.stage;
  const output = given['output'] === null ? null : dataRefOf(given['output']);
  const mayLack =
    isPart ||
    stage.again?.includes(source) === true ||
    stage.finally === true ||
    mayLackOutput(stageOfPlan(run.plan, source)!);
  if (output === null && ((wanted.output && !mayLack) || given['output'] !== null))
    throw createRefusal(run, `the output of ${source} for stage ${stage.id} is not a ref`);
  const named = fieldsOf(given['outputs'], `the named outputs of ${source}`);
  const declared = new Set(outputNamesOf(stageOfPlan(run.plan, source)!));
  const outputs = Object.entries(named).map(([name, value]): [string, DataRef] => {
    const ref = dataRefOf(value);
    if (ref === null || !declared.has(name))
      throw createRefusal(
        run,
        `the output ${quote(name)} of ${source} for stage ${stage.id} is not a ref of one of its outputs`,
      );
    return [name, ref];
  });
  const missing = mayLack ? undefined : wanted.outputs.find((name) => !Object.hasOwn(named, name));
  if (missing !== undefined)
    throw createRefusal(run, `the output ${missing} of ${source} for stage ${stage.id} is not in the call`);
  return { output, outputs: createMapping(outputs) };
}

/** Checks the ends of exactly the stages that a condition reads. */
export function checkEnds(
  run: AdmittedRun,
  stage: string,
  direct: readonly string[],
  handsOn: InputPlan | null,
  value: unknown,
): Readonly<Record<string, EndedStage>> {
  const given = fieldsOf(value, 'the stages that a condition is decided with');
  const parts = handsOn === null ? [] : partsBehind(run, handsOn);
  const reads = [...direct, ...parts.filter((id) => !direct.includes(id) && Object.hasOwn(given, id))];
  const stranger = Object.keys(given).find((id) => !reads.includes(id));
  if (stranger !== undefined)
    throw createRefusal(run, `the condition of stage ${stage} reads nothing of ${quote(stranger)}`);
  const ends = reads.map((source): [string, EndedStage] => {
    if (!Object.hasOwn(given, source))
      throw createRefusal(run, `the condition of stage ${stage} reads ${source}, which the call lacks`);
    const { state, attempt, output: ref } = fieldsOf(given[source], `the end of ${source}`);
    const output = ref === null ? null : dataRefOf(ref);
    const { retry, visits } = stageOfPlan(run.plan, source)!;
    const isAttempt =
      Number.isSafeInteger(attempt) &&
      (attempt as number) >= 0 &&
      (attempt as number) <= lastAttempt({ retry, visits });
    if (!isAttempt || !END_PHASES.includes(state as EndPhase) || (output === null && ref !== null))
      throw createRefusal(run, `the condition of stage ${stage} reads ${source}, whose end is not one`);
    return [source, { state: state as EndPhase, attempt: attempt as number, output }];
  });
  return createMapping(ends);
}

/** Checks that the run machine can end with this outcome. */
export function checkOutcome(run: AdmittedRun, value: unknown): RunOutcome {
  const { state, failedStage, failure: given, output: ref, tolerated } = fieldsOf(value, 'an outcome');
  const failure = given === null ? null : failureOf(run, given);
  const output = ref === null ? null : dataRefOf(ref);
  if (output === null && ref !== null) throw createRefusal(run, 'the output of its outcome is not a ref');
  if (output !== null && run.plan.output.kind === 'merge')
    throw createRefusal(run, 'its output is a merge, and the outcome brings one');
  if (
    failedStage !== null &&
    (typeof failedStage !== 'string' || planIndex(run.machine).stageById(failedStage) === undefined)
  )
    throw createRefusal(run, `its plan has no stage ${quote(failedStage)} that could have failed`);
  const fits = state === 'succeeded' ? failure === null : state === 'failed' ? failure !== null : state === 'cancelled';
  if (!fits || (failure === null && failedStage !== null))
    throw createRefusal(run, `it cannot end as ${quote(state)} ${failure === null ? 'without' : 'with'} a failure`);
  return {
    state: state as 'succeeded' | 'failed' | 'cancelled',
    failedStage,
    failure,
    output,
    ...checkTolerated(run, tolerated),
  };
}

function checkTolerated(run: AdmittedRun, value: unknown): Pick<RunOutcome, 'tolerated'> {
  if (value === undefined) return {};
  const may = new Set<unknown>(run.plan.stages.flatMap((stage) => (mayLackOutput(stage) ? [stage.id] : [])));
  if (!Array.isArray(value) || value.length === 0 || !value.every((id) => may.delete(id)))
    throw createRefusal(run, 'the stages whose failures it tolerates are not those of its plan');
  return { tolerated: value as string[] };
}

function failureOf(run: AdmittedRun, value: unknown): StageFailure {
  const failure = readFailure(value);
  if (failure === null) throw createRefusal(run, 'a failure must have a code, a message and a stderrTail, as strings');
  return failure;
}

/** Returns null if the value is not a failure, or if its texts are too long. */
export function readFailure(value: unknown): StageFailure | null {
  const { code, message, stderrTail } = fieldsOf(value, 'a failure');
  const texts = [code, message, stderrTail];
  if (texts.some((text) => typeof text !== 'string' || text.length > TEXT_CHARACTERS)) return null;
  return { code: toErrorCode(code as string), message: message as string, stderrTail: stderrTail as string };
}

/** Checks the outputs of the plan's output stages, in the plan's order. */
export function checkMerge(run: AdmittedRun, value: unknown): readonly NamedOutput[] | null {
  if (value === null) return null;
  const { output } = run.plan;
  if (output.kind !== 'merge' || !Array.isArray(value))
    throw createRefusal(run, 'its output is not merged of what the call brings');
  const brought = new Set(value.map((each) => fieldsOf(each, 'a part of the output')['name']));
  const names = output.stages.filter((name) => brought.has(name) || !mayLackOutput(stageOfPlan(run.plan, name)!));
  if (value.length !== names.length) throw createRefusal(run, 'its output is not merged of what the call brings');
  return names.map((name, part) => {
    const given = fieldsOf(value[part], 'a part of the output');
    const ref = dataRefOf(given['output']);
    if (given['name'] !== name || ref === null)
      throw createRefusal(run, `part ${part} of its output is the output of ${name}`);
    return { name, output: ref };
  });
}

export function createRefusal({ runId }: AdmittedRun, why: string): CodedError {
  return new CodedError('call/refused', `run ${runId}: ${why}`);
}
