import { Option } from 'commander';
import { countOf } from '../typed-count.ts';
import { defineCommand } from '../command.ts';
import { EXIT } from '../exit-code.ts';
import { renderSessions } from '../render/session.ts';
import { sessionLink, throwSessionError } from '../session-link.ts';
import type { SessionListState } from '../../client/sessions.ts';

interface Options {
  readonly json?: boolean;
  readonly state?: SessionListState;
  readonly limit: number;
}

const STATES: readonly SessionListState[] = ['open', 'done', 'failed', 'cancelled'];

export const command = defineCommand<Options>({
  configure: (command) => {
    command
      .addOption(new Option('--state <state>', 'only sessions in this state').choices(STATES))
      .option('-n, --limit <number>', 'most sessions to list', countOf(6), 20);
  },
  async execute(_args, { json, state, limit }, context) {
    const { link, sessions } = await sessionLink(context);
    const found = await sessions
      .listSessions(link.client(), { limit, ...(state === undefined ? {} : { state }) })
      .catch(throwSessionError);
    const iso = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString());
    if (json) {
      const shown = found.map(({ session, skill, state: is, startedAtMs, endedAtMs }) => ({
        session,
        skill,
        state: is,
        startedAt: iso(startedAtMs),
        endedAt: iso(endedAtMs),
      }));
      await context.stdout.write(`${JSON.stringify({ sessions: shown })}\n`);
    } else if (found.length === 0)
      await context.stdout.write(
        context.advise(
          `No session${state === undefined ? 's yet. Start one: voidbox session start SKILL' : ` is ${state}`}\n`,
        ),
      );
    else {
      const { style } = context.stdout;
      await context.stdout.write(
        `${renderSessions(found, { style, width: context.stdout.width(), nowMs: context.now().getTime() }).join('\n')}\n`,
      );
    }
    return EXIT.success;
  },
});
