import { inputJsonSchema } from '../../author/schema.ts';
import { askMismatches } from '../ask-options.ts';
import type { Rule } from '../rule.ts';
import { staticAsks } from '../static-prompt.ts';

export const primitiveSchemaMismatch = {
  code: 'primitive-schema-mismatch',
  severity: 'error or warning',
  about:
    'the response schema rejects an option of `act.askUser` (error), or no option gives a value of the schema (warning)',
  remedy: 'Give the options and the schema the same values.',
  check: {
    step({ step, config: { prompt, response }, insight }, tell) {
      if (response === undefined) return;
      const asks = typeof prompt === 'function' ? (insight.asksOf(step) ?? []) : staticAsks(prompt);
      if (asks.length === 0) return;
      for (const { severity, ask, message } of askMismatches(asks, inputJsonSchema(response)))
        tell(`Step "${step}": ${message}.`, { severity, step, ask });
    },
  },
} as const satisfies Rule;
