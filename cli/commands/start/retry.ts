import { defineCommand } from '../../command.ts';
import { addContinueOptions } from '../../start/continue-options.ts';
import { addRunOptions } from '../../start/run-options.ts';
import { startFrom, type StartFromOptions } from '../../start/start-from.ts';

export const command = defineCommand<StartFromOptions>({
  configure: (command) => {
    command
      .argument('<run>', 'a run that has ended: its id, a unique prefix of one, or `latest`')
      .option(
        '--from <stage>',
        'run this stage and all stages after it again (default: the stages that did not succeed)',
      );
    addContinueOptions(command);
    addRunOptions(command, '; without it that of the earlier run');
  },
  execute: ([run = ''], options, context) => startFrom(run, null, options, context),
});
