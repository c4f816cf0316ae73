import type { MappingTable } from './table.ts';
import { DURATIONS } from './values.ts';

export const WAIT = {
  form: (text) =>
    /^\d{4}-|\b(?:stages|params)\./.test(text) ? `{ until: ${JSON.stringify(text)} }` : `{ for: ${text} }`,
  keys: {
    for: {
      as: 'forMs',
      type: { is: 'duration', range: DURATIONS.wait },
      group: 'end',
      mistaken: ['duration', 'seconds', 'secs', 'sleep', 'delay', 'timeout'],
      form: 'for: 90s` or `until: TIME',
      doc: 'From the start of the stage.',
      example: '90s',
    },
    until: {
      as: 'until',
      type: {
        is: 'text',
        holds: 'time with offset, or expression',
        filled: 'write a time, such as 2026-12-01T09:00:00Z',
      },
      feeds: 'edges',
      group: 'end',
      mistaken: ['at', 'time', 'till', 'not_before'],
      doc: 'The end, at most 400 days after the start of the run. A past time ends the wait at once.',
      example: '2026-12-01T09:00:00Z',
    },
  },
} as const satisfies MappingTable;
