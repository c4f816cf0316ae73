import { inputJsonSchema } from '../../author/schema.ts';
import type { Rule } from '../rule.ts';

export const noJsonSchema = {
  code: 'no-json-schema',
  severity: 'warning',
  about: 'the schema of an answer or of the params has no JSON Schema, so agents are not told which values are valid',
  remedy:
    'Use a schema that has one (`z` and `type` of voidbox/skill-kit, zod from 4.2, ArkType, Valibot through toStandardJsonSchema of @valibot/to-json-schema).',
  check: {
    skill({ definition: { params }, isSubskill }, tell) {
      if (isSubskill || params === undefined || inputJsonSchema(params) !== null) return;
      tell(`The schema (${params['~standard'].vendor}) of the params has no JSON Schema.`);
    },
    // A step without a prompt gets no answer, so no agent needs the schema.
    step({ step, config: { prompt, response } }, tell) {
      if (prompt === undefined || response === undefined || inputJsonSchema(response) !== null) return;
      const { vendor } = response['~standard'];
      tell(`The schema (${vendor}) of the response of step "${step}" has no JSON Schema.`, { step });
    },
  },
} as const satisfies Rule;
