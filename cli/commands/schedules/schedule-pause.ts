import { defineCommand } from '../../command.ts';
import { sendChange } from '../../schedules/send-change.ts';

interface Options {
  readonly note?: string;
  readonly json?: boolean;
}

export const command = defineCommand<Options>({
  configure: (command) => {
    command
      .argument('<deployment>', 'the name of the deployment')
      .argument('<trigger>', 'the name of the schedule')
      .option('--note <text>', 'why, which `schedule list` shows; at most 500 bytes');
  },
  async execute([deployment = '', trigger = ''], { note = '', json }, context) {
    const text = `paused ${trigger} of ${deployment}: its times start nothing until \`schedule resume\``;
    const body = { note };
    return await sendChange({ deployment, trigger, verb: 'pause', body, isJson: json === true, text }, context);
  },
});
