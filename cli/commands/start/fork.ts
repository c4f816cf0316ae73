import { defineCommand } from '../../command.ts';
import { addRunOptions } from '../../start/run-options.ts';
import { startFrom, type StartFromOptions } from '../../start/start-from.ts';

export const command = defineCommand<StartFromOptions>({
  configure: (command) => {
    command
      .argument('<run>', 'a run that has ended: its id, a unique prefix of one, or `latest`')
      .argument('<file>', 'the other spec or definition; - reads a spec from standard input')
      .option(
        '--from <stage>',
        'start at this stage; fails if an earlier stage differs (default: the first stage that differs)',
      );
    addRunOptions(command, '; without it that of the earlier run');
  },
  execute: ([run = '', file = ''], options, context) => startFrom(run, file, options, context),
});
