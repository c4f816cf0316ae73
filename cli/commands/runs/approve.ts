import { defineAnswerCommand } from '../../runs/answer-command.ts';

export const command = defineAnswerCommand('approve', {
  field: 'a value that the approval asks for; may be repeated',
  comment: 'why, for those who read the run',
});
