/** The routes of Void-Box's API about messages of sessions. */
import type { Context, Hono } from 'hono';
import { appendMessage, type MessageTools, readMessages, type SessionRef } from '../../app/void-box/messages.ts';
import { getCaller } from '../access/caller.ts';
import { readSegment } from '../routes/run-id.ts';
import { createInvalidError } from './errors.ts';
import { readBody } from './request.ts';
import { MessageBody } from './schemas.ts';

/** `/v1/sessions/ID`. */
const SESSION_SEGMENT = 3;
const ID_BYTES = 1_000;

export function addSessionRoutes(routes: Hono, tools: MessageTools): void {
  routes.get('/sessions/:sessionId/messages', async (context) =>
    context.json(await readMessages(readSession(context), tools)),
  );
  routes.post('/sessions/:sessionId/messages', async (context) => {
    const message = await readBody(context, MessageBody, 'INVALID_SPEC');
    return context.json(await appendMessage(readSession(context), message, tools));
  });
}

function readSession(context: Context): SessionRef {
  const id = readSegment(context, SESSION_SEGMENT, 'the id of the session');
  if (id === '' || Buffer.byteLength(id) > ID_BYTES)
    throw createInvalidError('INVALID_PARAMS', `the id of a session has 1 to ${ID_BYTES} bytes`);
  return { id, caller: getCaller(context) };
}
