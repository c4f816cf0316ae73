import { Option } from 'commander';
import { countOf } from '../../typed-count.ts';
import { defineCommand } from '../../command.ts';
import type { ServerLink } from '../../../client/temporal/server-link.ts';
import type { ListedSession, SessionListState } from '../../../client/sessions/list.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { createUsageError } from '../../../app/app-error.ts';
import type { CliContext } from '../../context.ts';
import { EXIT, type ExitCode } from '../../exit-code.ts';
import { formatIsoTime, renderSessions, renderWaiting } from '../../render/skills/session.ts';
import { sessionLink, throwSessionError } from '../../skills/session-link.ts';

interface Options {
  readonly json?: boolean;
  readonly state?: SessionListState;
  readonly waiting?: boolean;
  readonly limit: number;
}

const STATES: readonly SessionListState[] = ['open', 'done', 'failed', 'cancelled'];

export const command = defineCommand<Options>({
  configure: (command) => {
    command
      .addOption(new Option('--state <state>', 'only sessions in this state').choices(STATES))
      .option('--waiting', 'only open sessions that wait for a person, with assignee and deadline')
      .option('-n, --limit <number>', 'list at most this many sessions', countOf(6), 20);
  },
  async execute(_args, { json, state, waiting, limit }, context) {
    if (waiting && state !== undefined && state !== 'open')
      throw createUsageError(
        `--waiting and --state ${state} cannot be combined`,
        'A session that waits for a person is open. Remove one of them.',
      );
    const { link } = await sessionLink(context);
    if (waiting) return await listWaiting(context, link, limit, json === true);
    const { listSessions } = await import('../../../client/sessions/list.ts');
    const found = await listSessions(link.client(), { limit, ...(state === undefined ? {} : { state }) }).catch(
      throwSessionError,
    );
    if (json) {
      await context.stdout.write(`${JSON.stringify({ sessions: found.map(jsonOf) })}\n`);
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

async function listWaiting(context: CliContext, link: ServerLink, limit: number, json: boolean): Promise<ExitCode> {
  const { requireWorker } = await import('../../../client/sessions/sessions.ts');
  const { listWaitingSessions } = await import('../../../client/sessions/waiting-sessions.ts');
  const client = link.client();
  const found = await requireWorker(client)
    .then(() => listWaitingSessions(client, { limit }))
    .catch(throwSessionError);
  for (const { session, reason } of found.unasked)
    await context.stderr.write(`warning: session ${session} does not say whether it waits: ${sanitizeLine(reason)}\n`);
  const { stdout } = context;
  if (json) {
    const sessions = found.sessions.map(({ waiting, ...one }) => ({
      ...jsonOf(one),
      waiting: waiting.map(({ dueMs, ...step }) => ({ ...step, dueAt: formatIsoTime(dueMs) })),
    }));
    await stdout.write(`${JSON.stringify({ sessions, unasked: found.unasked })}\n`);
  } else if (found.sessions.length === 0) await stdout.write('No session waits for a person\n');
  else {
    const options = { style: stdout.style, width: stdout.width(), nowMs: context.now().getTime() };
    await stdout.write(`${renderWaiting(found.sessions, options).join('\n')}\n`);
  }
  return EXIT.success;
}

function jsonOf({ session, skill, state, startedAtMs, endedAtMs }: ListedSession): Record<string, unknown> {
  return { session, skill, state, startedAt: formatIsoTime(startedAtMs), endedAt: formatIsoTime(endedAtMs) };
}
