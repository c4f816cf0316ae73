import { toSessionJson } from '../../../app/json/session-json.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { renderSession } from '../../render/skills/session.ts';
import { advanceCommand, connectSessions } from '../../skills/session-link.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: (command) => {
    command.argument('<session>', 'the session id');
  },
  async execute([session = ''], options, context) {
    const sessions = await connectSessions(context);
    const view = await sessions.view(session);
    if (options.json)
      await context.stdout.write(`${JSON.stringify(toSessionJson(view, sessions.findPage(session)))}\n`);
    else
      await context.stdout.write(
        `${renderSession(view, advanceCommand(view.session, context), context.stdout.style).join('\n')}\n`,
      );
    return EXIT.success;
  },
});
