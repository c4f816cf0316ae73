import { PLAN_LIMITS } from '../../plan/plan.ts';
import type { JsonType } from './json.ts';
import type { MappingTable } from './table.ts';
import { PARAM_TYPES } from './values.ts';

/** A default, in its mapping or as the whole value. */
export const PARAM_DEFAULT = {
  is: 'json',
  holds: 'text, number, boolean or list',
  shapes: ['string', 'number', 'boolean', 'array'],
  isPrinted: true,
} as const satisfies JsonType;

/** The values of a parameter, or of a field of an approval. */
export const CHOICES = {
  as: 'choices',
  type: {
    is: 'list',
    of: { is: 'text', holds: 'text', lenient: true },
    item: 'a choice',
    items: 'texts',
    most: PLAN_LIMITS.choices,
  },
  mistaken: ['options', 'values', 'enum'],
  doc: 'The allowed values.',
} as const;

export const PARAMETER = {
  keys: {
    type: {
      as: 'type',
      feeds: 'params',
      type: { is: 'word', words: PARAM_TYPES, aliases: { string: 'text', bool: 'boolean', select: 'choice' } },
      otherwise: '`choice` with `choices`, `number` with `min` or `max`, else the type of its default',
      doc: 'Its type. A run gives a `list` as JSON.',
      example: 'text',
    },
    default: {
      as: 'default',
      feeds: 'params',
      type: PARAM_DEFAULT,
      called: 'the default',
      mistaken: ['value'],
      otherwise: 'required with each run',
      doc: 'The value in runs that set no other. Numbers and booleans keep the text that you write.',
      example: 100,
    },
    min: {
      as: 'min',
      type: { is: 'json', holds: 'number', shapes: ['number'] },
      mistaken: ['minimum'],
      doc: 'The least number.',
      example: 1,
    },
    max: {
      as: 'max',
      type: { is: 'json', holds: 'number', shapes: ['number'] },
      mistaken: ['maximum'],
      doc: 'The greatest number.',
      example: 1000,
    },
    choices: { ...CHOICES, example: ['100', '1000'] },
    description: {
      as: 'description',
      type: { is: 'text', holds: 'text' },
      called: 'the description',
      doc: 'For readers of the spec; no effect.',
      example: 'how many rows',
    },
  },
} as const satisfies MappingTable;
