import { APPROVAL_DEFAULTS, FIELD_DEFAULTS } from '../../plan/defaults.ts';
import { FIELD_TYPES, PLAN_LIMITS, TIMEOUT_ANSWERS } from '../../plan/plan.ts';
import { CHOICES } from './param-table.ts';
import type { MappingTable } from './table.ts';
import { DURATIONS } from './values.ts';

const FIELD = {
  form: (text) => `{ name: ${text} }`,
  keys: {
    name: { as: 'name', type: { is: 'name' }, required: true, doc: 'Unique in the approval.', example: 'window' },
    type: {
      as: 'type',
      type: { is: 'word', words: FIELD_TYPES, aliases: { string: 'text', bool: 'boolean', select: 'choice' } },
      otherwise: '`choice` with `choices`, else `text`',
      doc: 'Its type.',
      example: 'choice',
    },
    choices: { ...CHOICES, example: ['tonight', 'tomorrow'] },
    required: {
      as: 'required',
      type: { is: 'flag' },
      default: FIELD_DEFAULTS.required,
      doc: 'Whether an approval must give it; a rejection need not.',
      example: false,
    },
    description: {
      as: 'description',
      type: { is: 'text', holds: 'text' },
      doc: 'For the people who answer.',
      example: 'when to roll out',
    },
  },
} as const satisfies MappingTable;

export const APPROVAL = {
  form: (text) => `{ message: ${text} }`,
  keys: {
    message: {
      as: 'message',
      type: { is: 'text', holds: 'text', filled: 'write what is asked, such as `Deploy to production?`' },
      required: true,
      mistaken: ['prompt', 'question', 'text', 'title'],
      doc: 'The question.',
      example: 'Deploy to production?',
    },
    by: {
      as: 'by',
      type: {
        is: 'list',
        of: { is: 'text', holds: 'text' },
        item: 'an approver',
        items: 'texts',
        most: PLAN_LIMITS.approvers,
      },
      mistaken: ['approvers', 'assignees', 'reviewers'],
      doc: 'Tokens, or their groups, that may answer over TCP.',
      example: ['release managers'],
    },
    self_approval: {
      as: 'selfApproval',
      type: { is: 'flag' },
      default: APPROVAL_DEFAULTS.selfApproval,
      mistaken: ['allow_self_approval', 'self_approve', 'prevent_self_review', 'four_eyes'],
      doc: '`false`: the token that started the run may not answer. See [Proven answers](api-http.md#proven-answers).',
      example: false,
    },
    timeout: {
      as: 'timeoutMs',
      type: { is: 'duration', range: DURATIONS.approval },
      mistaken: ['timeout_secs', 'deadline', 'expires', 'timeout_seconds'],
      otherwise: 'as long as the run is open',
      doc: 'Time limit for the answer.',
      example: '2d',
    },
    on_timeout: {
      as: 'onTimeout',
      type: { is: 'word', words: TIMEOUT_ANSWERS },
      default: APPROVAL_DEFAULTS.onTimeout,
      doc: 'After `timeout`: `reject` fails the stage as `stage/rejected`, `fail` as `stage/no-answer`.',
      example: 'reject',
    },
    fields: {
      as: 'fields',
      type: {
        is: 'list',
        of: { is: 'mapping', table: FIELD },
        item: 'a field',
        most: PLAN_LIMITS.approvalFields,
      },
      mistaken: ['inputs', 'form', 'params'],
      form: 'fields: [{ name: NAME }]',
      doc: 'Values that the answer gives.',
      example: [{ name: 'window', choices: ['tonight', 'tomorrow'] }],
    },
  },
} as const satisfies MappingTable;
