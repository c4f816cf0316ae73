/**
 * Activities of a stage with a condition: they evaluate it, and pass on the data that replaces the output of a passed
 * stage.
 */
import { Buffer } from 'node:buffer';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { EndedStage } from '../../domain/pipeline/command.ts';
import type { ConditionPlan, DataRef, InputPlan } from '../../domain/plan/plan.ts';
import { formatAttempt } from '../../domain/run/attempt.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import type { InstancePath } from '../../domain/run/instance.ts';
import { checkCondition } from '../../domain/language/expression/check.ts';
import type { StageFacts } from '../../domain/language/expression/evaluate.ts';
import { EXPRESSION_LIMITS } from '../../domain/language/expression/limits.ts';
import type { ConditionResult, InlineOrRef } from '../contract.ts';
import type { ActivityDeps } from '../deps.ts';
import { mergeOutputs } from '../items/merge-outputs.ts';
import type { ArtifactStore } from '../ports/artifacts.ts';
import { readResult } from '../attempt/record.ts';
import { createMapping, valueAt } from '../../domain/units/mapping.ts';

export interface EvaluateRequest {
  readonly runId: string;
  readonly stage: string;
  /** The item that the stage belongs to; empty: the run itself. */
  readonly instance: InstancePath;
  readonly when: ConditionPlan;
  /** The data that replaces the output of a passed stage; null: no stage carries it on. */
  readonly handsOn: InputPlan | null;
  /** The input of the run, or the item; null if `handsOn` has another kind. */
  readonly runInput: InlineOrRef | null;
  readonly upstream: Readonly<Record<string, EndedStage>>;
  /** Events of the workflow that no activity has written yet. */
  readonly events: readonly NewRunEvent[];
}

type Deps = Pick<ActivityDeps, 'artifacts' | 'events' | 'evaluate'>;

/** @throws CodedError `stage/condition` if the condition cannot be evaluated */
export async function evaluateCondition(deps: Deps, request: EvaluateRequest): Promise<ConditionResult> {
  const { runId, stage, when, events } = request;
  if (events.length > 0) await deps.events.append(runId, events);
  const stages = await factsOf(deps, request);
  const answer = await deps.evaluate(when.source, { stages, params: when.params });
  if ('problem' in answer) throw createConditionError(stage, when, answer.problem);
  return { holds: answer.holds, output: answer.holds ? null : await resolveHandedOn(deps.artifacts, request) };
}

async function factsOf(deps: Deps, request: EvaluateRequest): Promise<Readonly<Record<string, StageFacts>>> {
  const { stage, when, upstream } = request;
  const contents = contentsRead(stage, when);
  const refs = [...contents].flatMap((id) => valueAt(upstream, id)?.output ?? []);
  const bytes = refs.reduce((sum, { sizeBytes }) => sum + sizeBytes, Buffer.byteLength(JSON.stringify(when.params)));
  if (bytes > EXPRESSION_LIMITS.inputBytes)
    throw createConditionError(
      stage,
      when,
      `it reads ${bytes} bytes; at most ${EXPRESSION_LIMITS.inputBytes} are allowed: let a stage print only what the condition needs`,
    );
  const facts = await Promise.all(
    when.stages.map(async (id): Promise<[string, StageFacts]> => {
      const ended = valueAt(upstream, id)!;
      // Otherwise the stage may have an output that it only passes on from another stage.
      const output = contents.has(id) && ended.state === 'succeeded' ? ended.output : null;
      const exitCode = await exitCodeOf(deps, request, id, ended);
      return [
        id,
        {
          state: ended.state,
          ...(output === null ? {} : { output: await textOf(deps.artifacts, output) }),
          ...(output?.redacted === undefined ? {} : { redacted: output.redacted.variables }),
          ...(exitCode === null ? {} : { exitCode }),
        },
      ];
    }),
  );
  return createMapping(facts);
}

/** Returns the stages whose output the condition reads, not only their state. */
function contentsRead(stage: string, when: ConditionPlan): ReadonlySet<string> {
  const checked = checkCondition(when.source);
  if ('problems' in checked)
    throw createConditionError(stage, when, checked.problems.map(({ message }) => message).join('; '));
  const read = checked.stages.filter(({ field }) => field === 'output' || field === 'json');
  return new Set(read.map((reference) => reference.stage));
}

/** Returns null if the stage ran no command, or none of its commands ended on its own. */
async function exitCodeOf(
  { events }: Deps,
  { runId, instance }: EvaluateRequest,
  stage: string,
  { state, attempt }: EndedStage,
): Promise<number | null> {
  if (attempt === 0 || (state !== 'succeeded' && state !== 'failed')) return null;
  const result = await readResult(events, runId, formatAttempt({ stage, instance, attempt }));
  return result?.command?.exitCode ?? null;
}

async function textOf(artifacts: ArtifactStore, ref: DataRef): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of artifacts.open(ref)) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}

async function resolveHandedOn(artifacts: ArtifactStore, request: EvaluateRequest): Promise<DataRef | null> {
  const { handsOn, runInput, upstream } = request;
  switch (handsOn?.kind) {
    case undefined:
    case 'none':
      return null;
    case 'run-input':
      if (runInput === null) return null;
      return runInput.kind === 'ref'
        ? runInput.ref
        : await artifacts.put(toStream(Buffer.from(runInput.text)), 'application/json');
    case 'carry':
      return valueAt(upstream, handsOn.stage)?.output ?? null;
    case 'merge': {
      const parts = handsOn.stages.flatMap((name) => {
        const output = valueAt(upstream, name)?.output ?? null;
        return output === null ? [] : [{ name, output }];
      });
      return await mergeOutputs(artifacts, parts);
    }
  }
}

function createConditionError(stage: string, { source }: ConditionPlan, problem: string): CodedError {
  const shown = source.length > 200 ? `${source.slice(0, 199)}…` : source;
  return new CodedError('stage/condition', `the condition of stage ${stage} cannot be decided: ${problem}: ${shown}`);
}

async function* toStream(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes;
}
