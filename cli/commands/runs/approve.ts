import { defineAnswerCommand } from '../../runs/answer-command.ts';

export const command = defineAnswerCommand('approve', {
  field: 'a value that the approval asks for; repeatable',
  comment: 'the reason; it is shown with the run',
});
