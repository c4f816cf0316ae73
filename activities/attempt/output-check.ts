/** Checks an output against the `output_schema` of its stage. */
import { Buffer } from 'node:buffer';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { DataRef, Plan, StagePlan } from '../../domain/plan/plan.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { OUTPUT_SCHEMA_LIMITS } from '../../domain/language/schema/output-schema.ts';
import { describeRedacted } from '../../domain/security/not-json.ts';
import { toCanonicalJson } from '../../domain/units/canonical-json.ts';
import type { ActivityDeps } from '../deps.ts';
import type { OutcomeFailure } from './outputs.ts';

type Deps = Pick<ActivityDeps, 'artifacts' | 'checkOutput'>;

type CheckedStage = Pick<StagePlan, 'id' | 'outputSchema'>;

/** Returns null if the output fits, or if the stage has no schema. The message may quote the output. */
export async function findOutputMismatch(
  deps: Deps,
  stage: CheckedStage,
  output: DataRef,
): Promise<OutcomeFailure | null> {
  if (stage.outputSchema === undefined) return null;
  const { outputBytes } = OUTPUT_SCHEMA_LIMITS;
  if (output.sizeBytes > outputBytes)
    return mismatch(stage, `it has ${output.sizeBytes} bytes, but with a schema at most ${outputBytes} are allowed`);
  const parts: Uint8Array[] = [];
  for await (const part of deps.artifacts.open(output)) parts.push(part);
  const found = await findBytesMismatch(deps, stage, Buffer.concat(parts));
  const variables = output.redacted?.variables ?? [];
  if (found === null || variables.length === 0) return found;
  return { ...found, message: `${found.message}; ${describeRedacted(variables)}` };
}

/** Does the same as `findOutputMismatch`, for an output that is not stored yet and within the size limit. */
export async function findBytesMismatch(
  { checkOutput }: Pick<Deps, 'checkOutput'>,
  stage: CheckedStage,
  bytes: Buffer,
): Promise<OutcomeFailure | null> {
  if (stage.outputSchema === undefined) return null;
  const answer = await checkOutput(stage.outputSchema, bytes.toString('utf8'));
  return 'problem' in answer ? mismatch(stage, answer.problem) : null;
}

function mismatch({ id }: CheckedStage, problem: string): OutcomeFailure {
  return {
    code: 'stage/output-schema',
    message: `stage ${id} has an output that does not match its \`output_schema\`: ${sanitizeLine(problem)}`,
  };
}

/**
 * Rejects a plan with an invalid schema, because any client may have sent the plan. Such a schema would fail its stage
 * only after its work.
 * @throws CodedError `admit/invalid`
 */
export async function refuseBadSchemas({ checkOutput }: Pick<Deps, 'checkOutput'>, { stages }: Plan): Promise<void> {
  const seen = new Set<string>();
  for (const { id, outputSchema } of stages) {
    if (outputSchema === undefined) continue;
    const key = toCanonicalJson(outputSchema);
    if (seen.has(key)) continue;
    seen.add(key);
    const answer = await checkOutput(outputSchema, null);
    if ('problem' in answer)
      throw new CodedError(
        'admit/invalid',
        `the \`output_schema\` of stage ${id} is not valid: ${sanitizeLine(answer.problem)}`,
      );
  }
}
