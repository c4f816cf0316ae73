import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { formatIsoTime, renderSession } from '../../render/skills/session.ts';
import { advanceCommand, sessionLink, throwSessionError } from '../../skills/session-link.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: (command) => {
    command.argument('<session>', 'the session id');
  },
  async execute([session = ''], options, context) {
    const { link, sessions } = await sessionLink(context);
    try {
      const view = await sessions.viewSession(link.client(), session);
      if (options.json) {
        const open = view.open.map(({ human, ...one }) =>
          human === undefined ? one : { ...one, human: { ...human, dueAt: formatIsoTime(human.dueMs ?? null) } },
        );
        const startedAt = view.startedAtMs === 0 ? null : formatIsoTime(view.startedAtMs);
        await context.stdout.write(`${JSON.stringify({ ...view, startedAt, open, uiUrl: link.runUrl(session) })}\n`);
      } else
        await context.stdout.write(
          `${renderSession(view, advanceCommand(view.session, context), context.stdout.style).join('\n')}\n`,
        );
      return EXIT.success;
    } catch (error) {
      return await throwSessionError(error);
    }
  },
});
