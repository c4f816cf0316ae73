import { defineCommand } from '../../command.ts';
import { addRunOptions } from '../../start/run-options.ts';
import { startFrom, type StartFromOptions } from '../../start/start-from.ts';

export const command = defineCommand<StartFromOptions>({
  configure: (command) => {
    command
      .argument('<run>', 'a run that has ended: its id, a unique prefix of one, or `latest`')
      .argument('<file>', 'the other spec or definition; - is standard input')
      .option(
        '--from <stage>',
        'start at this stage, and refuse when one before it differs; by default where the specs differ',
      );
    addRunOptions(command, '; without it that of the earlier run');
  },
  execute: ([run = '', file = ''], options, context) => startFrom(run, file, options, context),
});
