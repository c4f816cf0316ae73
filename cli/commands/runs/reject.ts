import { defineAnswerCommand } from '../../runs/answer-command.ts';

export const command = defineAnswerCommand('reject', {
  field: 'a value that the approval asks for; none is required; may be repeated',
  comment: 'why; it stands in the run and in the failure',
});
