import type { StagePlan } from '../../../plan/plan.ts';
import { countUtf8Bytes } from '../../../units/utf8.ts';
import { type CheckSchema, OUTPUT_SCHEMA_LIMITS } from '../../schema/output-schema.ts';
import type { Problems } from '../../text/diagnostics.ts';
import { placeInSchema } from '../../schema/schema-place.ts';
import type { StageSpec } from '../../read/spec.ts';

/** @param check  null: the caller has the schema checked elsewhere before a run starts */
export function compileOutputSchema(
  { outputSchema }: StageSpec,
  what: string,
  check: CheckSchema | null,
  problems: Problems,
): Pick<StagePlan, 'outputSchema'> {
  if (outputSchema === null) return {};
  const { at, value, text, node } = outputSchema;
  const bytes = countUtf8Bytes(text);
  const problem = bytes > OUTPUT_SCHEMA_LIMITS.schemaBytes ? null : (check?.(value) ?? null);
  if (bytes > OUTPUT_SCHEMA_LIMITS.schemaBytes)
    problems.error(
      'spec/too-large',
      at,
      `\`output_schema\` of ${what} has ${bytes} bytes as JSON; at most ${OUTPUT_SCHEMA_LIMITS.schemaBytes} are allowed`,
      'shorten it; use `$defs` for repeated parts',
    );
  else if (problem !== null)
    problems.error(
      'spec/bad-value',
      placeInSchema(problem, node) ?? at,
      `\`output_schema\` of ${what} is not valid: ${problem}`,
      'correct it; it is a JSON Schema (2020-12), such as `{ type: object, required: [ok] }`',
    );
  return { outputSchema: value };
}
