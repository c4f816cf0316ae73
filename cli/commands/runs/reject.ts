import { defineAnswerCommand } from '../../runs/answer-command.ts';

export const command = defineAnswerCommand('reject', {
  field: 'a value that the approval asks for; optional; repeatable',
  comment: 'the reason; it is shown with the run and in the failure',
});
