import { stopStack } from '../../workers/embedded/client.ts';
import { defineCommand } from '../command.ts';
import { EXIT } from '../exit-code.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: () => undefined,
  async execute(_args, options, context) {
    const stopped = await stopStack(context.env);
    if (options.json) await context.stdout.write(`${JSON.stringify({ stopped })}\n`);
    else
      await context.stdout.write(
        stopped ? 'The embedded stack has stopped. Runs that were open go on at the next start.\n' : 'The embedded stack was not running.\n',
      );
    return EXIT.success;
  },
});
