import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { renderRecord } from '../../render/skills/session.ts';
import { connectSessions } from '../../skills/session-link.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: (command) => {
    command.argument('<session>', 'the session id');
  },
  async execute([session = ''], options, context) {
    for await (const record of (await connectSessions(context)).readHistory(session)) {
      await context.stdout.write(
        options.json ? `${JSON.stringify(record)}\n` : `${renderRecord(record, context.stdout.style)}\n`,
      );
    }
    return EXIT.success;
  },
});
