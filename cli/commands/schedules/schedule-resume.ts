import { defineCommand } from '../../command.ts';
import { sendChange } from '../../schedules/send-change.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: (command) => {
    command.argument('<deployment>', 'the name of the deployment').argument('<trigger>', 'the name of the schedule');
  },
  async execute([deployment = '', trigger = ''], { json }, context) {
    const text = `resumed ${trigger} of ${deployment}: times that passed start only if you backfill them`;
    return await sendChange({ deployment, trigger, verb: 'resume', body: null, isJson: json === true, text }, context);
  },
});
