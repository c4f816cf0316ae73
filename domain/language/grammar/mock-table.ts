import { MOCK_DEFAULTS } from '../../plan/defaults.ts';
import type { Key, MappingTable } from './table.ts';
import { RANGES } from './values.ts';

export const MOCK = {
  form: (text) => `{ output: ${JSON.stringify(text)} }`,
  keys: {
    output: {
      as: 'output',
      type: {
        is: 'json',
        holds: 'text or any JSON',
        shapes: ['string', 'number', 'boolean', 'array', 'object'],
        isPrinted: true,
      },
      mistaken: ['stdout', 'result', 'returns', 'value'],
      default: MOCK_DEFAULTS.output,
      doc: 'At most 64 KiB. A list or mapping becomes JSON.',
      example: { ok: true },
    },
    exit_code: {
      as: 'exitCode',
      type: { is: 'number', range: RANGES.exitCode },
      mistaken: ['exit', 'code', 'status', 'exitcode'],
      default: MOCK_DEFAULTS.exitCode,
      doc: 'Each code except 0 fails the stage.',
      example: 1,
    },
  },
} as const satisfies MappingTable;

/** The key `mock` of a step, a box, and the stage of `kind: agent`. */
export const MOCK_KEY = {
  as: 'mock',
  type: { is: 'mapping', table: MOCK },
  mistaken: ['fake', 'stub', 'dry_run', 'simulate'],
  form: 'mock: { output: TEXT }',
  doc: 'Its result in a run with `--mock`. See [Mocks](#mocks).',
  example: { output: { ok: true } },
} as const satisfies Key;
