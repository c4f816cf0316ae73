import { Option } from 'commander';
import { countOf } from '../../typed-count.ts';
import { defineCommand } from '../../command.ts';
import type { SessionListState } from '../../../client/sessions/list.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { createUsageError } from '../../../app/app-error.ts';
import { toListedSessionJson, toWaitingJson } from '../../../app/json/session-json.ts';
import type { SessionControl } from '../../../app/sessions/session-control.ts';
import type { CliContext } from '../../context.ts';
import { EXIT, type ExitCode } from '../../exit-code.ts';
import { renderSessions, renderWaiting } from '../../render/skills/session.ts';
import { connectSessions } from '../../skills/session-link.ts';

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
    const sessions = await connectSessions(context);
    if (waiting) return await listWaiting(sessions, { limit, json: json === true }, context);
    const found = await sessions.list({ limit, state });
    if (json) {
      await context.stdout.write(`${JSON.stringify({ sessions: found.map(toListedSessionJson) })}\n`);
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

async function listWaiting(
  sessions: SessionControl,
  { limit, json }: { readonly limit: number; readonly json: boolean },
  context: CliContext,
): Promise<ExitCode> {
  const found = await sessions.listWaiting({ limit });
  for (const { session, reason } of found.unasked)
    await context.stderr.write(`warning: session ${session} does not say whether it waits: ${sanitizeLine(reason)}\n`);
  const { stdout } = context;
  if (json) await stdout.write(`${JSON.stringify(toWaitingJson(found))}\n`);
  else if (found.sessions.length === 0) await stdout.write('No session waits for a person\n');
  else {
    const options = { style: stdout.style, width: stdout.width(), nowMs: context.now().getTime() };
    await stdout.write(`${renderWaiting(found.sessions, options).join('\n')}\n`);
  }
  return EXIT.success;
}
