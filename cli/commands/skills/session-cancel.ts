import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { connectSessions } from '../../skills/session-link.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: (command) => {
    command.argument('<session>', 'the session id');
  },
  async execute([session = ''], options, context) {
    const wasOpen = await (await connectSessions(context)).cancel(session);
    if (options.json) await context.stdout.write(`${JSON.stringify({ session, wasOpen })}\n`);
    else await context.stdout.write(wasOpen ? `${session} cancelled\n` : `${session} had already ended\n`);
    return EXIT.success;
  },
});
