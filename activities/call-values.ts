/** What a call carries beside ids: outputs of earlier stages and the run's outcome. Nothing is taken over that is not checked here. */
import { CodedError } from '../domain/errors/coded-error.ts';
import { toErrorCode } from '../domain/errors/error-code.ts';
import { type TakenData, takenBy } from '../domain/pipeline/machine-plan.ts';
import { planIndex } from '../domain/pipeline/plan-index.ts';
import type { NamedOutput } from '../domain/pipeline/state.ts';
import type { DataRef, StagePlan } from '../domain/plan/plan.ts';
import type { RunOutcome } from '../domain/run/event.ts';
import type { StageFailure } from '../domain/run/stage-result.ts';
import { isSha256 } from '../domain/units/sha256.ts';
import { type AdmittedRun, quoted } from './admitted-run.ts';
import type { UpstreamOutputs } from './contract.ts';

export type Fields = Readonly<Record<string, unknown>>;

/** Texts of failures are clipped where they are made; a longer one is none of them. */
const TEXT_CHARACTERS = 64 * 1024;
const MEDIA_TYPE = /^[\x20-\x7e]{0,256}$/;

/** @throws CodedError `call/refused` when it is no object */
export function fieldsOf(value: unknown, what: string): Fields {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields;
  throw new CodedError('call/refused', `${what} has to be an object, it is ${quoted(value)}`);
}

/** The ref, without anything else; null when it is none. */
export function dataRefOf(value: unknown): DataRef | null {
  if (typeof value !== 'object' || value === null) return null;
  const { sha256, sizeBytes, mediaType } = value as Fields;
  if (typeof sha256 !== 'string' || !isSha256(sha256)) return null;
  if (typeof sizeBytes !== 'number' || !Number.isSafeInteger(sizeBytes) || sizeBytes < 0) return null;
  if (typeof mediaType !== 'string' || !MEDIA_TYPE.test(mediaType)) return null;
  return { sha256, sizeBytes, mediaType };
}

/** Of exactly the stages that `stage` takes data of, at least what it takes. */
export function checkedUpstream(
  run: AdmittedRun,
  stage: StagePlan,
  value: unknown,
): Readonly<Record<string, UpstreamOutputs>> {
  const given = fieldsOf(value, 'the outputs of earlier stages');
  const sources = takenBy(stage);
  const stranger = Object.keys(given).find((id) => !sources.some(({ stage: source }) => source === id));
  if (stranger !== undefined) throw refused(run, `stage ${stage.id} takes no data of ${quoted(stranger)}`);
  const taken: [string, UpstreamOutputs][] = [];
  for (const wanted of sources) {
    const source = wanted.stage;
    if (!Object.hasOwn(given, source))
      throw refused(run, `stage ${stage.id} takes data of ${source}, which the call lacks`);
    taken.push([source, outputsOf(run, stage, wanted, fieldsOf(given[source], `the outputs of ${source}`))]);
  }
  return Object.fromEntries(taken);
}

function outputsOf(run: AdmittedRun, stage: StagePlan, wanted: TakenData, given: Fields): UpstreamOutputs {
  const source = wanted.stage;
  const output = given['output'] === null ? null : dataRefOf(given['output']);
  if (output === null && (wanted.output || given['output'] !== null))
    throw refused(run, `the output of ${source} for stage ${stage.id} is no ref`);
  const named = fieldsOf(given['outputs'], `the named outputs of ${source}`);
  const declared = new Set(run.plan.stages[planIndex(run.machine).stageById(source)!]!.outputs.map(({ name }) => name));
  const outputs = Object.entries(named).map(([name, value]): [string, DataRef] => {
    const ref = dataRefOf(value);
    if (ref === null || !declared.has(name))
      throw refused(
        run,
        `the output ${quoted(name)} of ${source} for stage ${stage.id} is no ref of an output that it has`,
      );
    return [name, ref];
  });
  const missing = wanted.outputs.find((name) => !Object.hasOwn(named, name));
  if (missing !== undefined)
    throw refused(run, `the output ${missing} of ${source} for stage ${stage.id} is not in the call`);
  return { output, outputs: Object.fromEntries(outputs) };
}

/** An outcome that the run machine can come to. */
export function checkedOutcome(run: AdmittedRun, value: unknown): RunOutcome {
  const { state, failedStage, failure: given, output: ref } = fieldsOf(value, 'an outcome');
  const failure = given === null ? null : failureOf(run, given);
  const output = ref === null ? null : dataRefOf(ref);
  if (output === null && ref !== null) throw refused(run, 'the output of its outcome is no ref');
  if (output !== null && run.plan.output.kind === 'merge')
    throw refused(run, 'its output is a merge, and the outcome brings one');
  if (
    failedStage !== null &&
    (typeof failedStage !== 'string' || planIndex(run.machine).stageById(failedStage) === undefined)
  )
    throw refused(run, `its plan has no stage ${quoted(failedStage)} that could have failed`);
  const fits = state === 'succeeded' ? failure === null : state === 'failed' ? failure !== null : state === 'cancelled';
  if (!fits || (failure === null && failedStage !== null))
    throw refused(run, `it cannot end as ${quoted(state)} ${failure === null ? 'without' : 'with'} a failure`);
  return { state: state as 'succeeded' | 'failed' | 'cancelled', failedStage, failure, output };
}

function failureOf(run: AdmittedRun, value: unknown): StageFailure {
  const failure = readFailure(value);
  if (failure === null) throw refused(run, 'a failure has to have a code, a message and a stderrTail, as texts');
  return failure;
}

/** Null when it is not one, or is longer than one may be. */
export function readFailure(value: unknown): StageFailure | null {
  const { code, message, stderrTail } = fieldsOf(value, 'a failure');
  const texts = [code, message, stderrTail];
  if (texts.some((text) => typeof text !== 'string' || text.length > TEXT_CHARACTERS)) return null;
  return { code: toErrorCode(code as string), message: message as string, stderrTail: stderrTail as string };
}

/** The outputs of the plan's output stages, in its order. */
export function checkedMerge(run: AdmittedRun, value: unknown): readonly NamedOutput[] | null {
  if (value === null) return null;
  const { output } = run.plan;
  if (output.kind !== 'merge' || !Array.isArray(value) || value.length !== output.stages.length)
    throw refused(run, 'its output is not merged of what the call brings');
  return output.stages.map((name, part) => {
    const given = fieldsOf(value[part], 'a part of the output');
    const ref = dataRefOf(given['output']);
    if (given['name'] !== name || ref === null)
      throw refused(run, `part ${part} of its output is the output of ${name}`);
    return { name, output: ref };
  });
}

function refused({ runId }: AdmittedRun, why: string): CodedError {
  return new CodedError('call/refused', `run ${runId}: ${why}`);
}
