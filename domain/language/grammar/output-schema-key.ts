import type { Key } from './table.ts';

/** The key `output_schema` of a step, a box, and the stage of `kind: agent`. */
export const OUTPUT_SCHEMA_KEY = {
  as: 'outputSchema',
  type: { is: 'json', holds: 'JSON Schema', shapes: ['object'] },
  mistaken: ['schema', 'result_schema', 'response_schema', 'json_schema'],
  doc: 'A schema for the output, which must be JSON. See [Schemas of outputs](#schemas-of-outputs).',
  example: { type: 'object', required: ['ok'], properties: { ok: { type: 'boolean' } } },
} as const satisfies Key;
