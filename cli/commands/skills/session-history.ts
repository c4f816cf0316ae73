import type { SessionRecordReader } from '../../../activities/ports/sessions.ts';
import { openSessionRecords } from '../../../store/open-session-stores.ts';
import { AppError } from '../../../app/app-error.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { renderRecord } from '../../render/skills/session.ts';
import { sessionLink, throwSessionError } from '../../skills/session-link.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: (command) => {
    command.argument('<session>', 'the session id');
  },
  async execute([session = ''], options, context) {
    const { link, sessions } = await sessionLink(context);
    try {
      const { flushed, flushedRef, records } = await sessions.recordsOfSession(link.client(), session);
      const older =
        flushedRef === null ? [] : await readOlder(openSessionRecords(context.env), session, flushedRef, flushed);
      for (const record of [...older, ...records]) {
        await context.stdout.write(
          options.json ? `${JSON.stringify(record)}\n` : `${renderRecord(record, context.stdout.style)}\n`,
        );
      }
      return EXIT.success;
    } catch (error) {
      return await throwSessionError(error);
    }
  },
});

async function readOlder(
  store: SessionRecordReader,
  session: string,
  ref: string,
  count: number,
): ReturnType<SessionRecordReader['read']> {
  try {
    return await store.read(session, ref);
  } catch (error) {
    throw new AppError(
      'environment',
      'cli/elsewhere',
      (error as Error).message,
      `The ${count} older records are on the worker's host: run the command there.`,
    );
  }
}
