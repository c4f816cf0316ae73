/** Sessions of step machines. */
import { createHash } from 'node:crypto';
import { createRoute, type OpenAPIHono, type z } from '@hono/zod-openapi';
import type { Context, TypedResponse } from 'hono';
import { mayUseSession, requireSession } from '../../app/access/authenticate.ts';
import { toListedSessionJson, toSessionJson, toWaitingJson } from '../../app/json/session-json.ts';
import { openServiceSessions } from '../../app/sessions/open-sessions.ts';
import type { GivenStep, SessionControl, SessionStart } from '../../app/sessions/session-control.ts';
import { isSessionId, isSessionName, SESSION_NAME_RULE } from '../../domain/step-machine/session-id.ts';
import { shorten } from '../../domain/units/quote.ts';
import { getCaller } from '../access/caller.ts';
import type { ApiOptions } from '../api-options.ts';
import { streamTexts } from '../event-stream.ts';
import { readFirstPiece } from '../first-piece.ts';
import { MOST_SESSION_WAITS, SESSION_WAIT_SECONDS } from '../limits.ts';
import { createRequestError } from '../problems.ts';
import { createSessionWaits, type Wait } from '../session-waits.ts';
import {
  AdvanceBody,
  CancelledSessionSchema,
  ListedSessionsSchema,
  SessionPath,
  SessionResultSchema,
  SessionSchema,
  SessionsQuery,
  SessionWaitQuery,
  StartSessionBody,
  StepRecordSchema,
} from '../session-schemas.ts';
import { describeJson, PROBLEM } from './answers.ts';
import { readSegment } from './run-id.ts';

const LINES_TYPE = 'application/jsonl';
/** `/api/v1/sessions/ID`. */
const SESSION_SEGMENT = 4;
const DEFAULT_LIMIT = 50;

const describeBody = <Schema extends z.ZodType>(schema: Schema) => ({
  required: true,
  content: { 'application/json': { schema } },
});

const RESULTS = {
  202: describeJson('The session still works: `result` is null.', SessionResultSchema),
  ...PROBLEM,
};

const LIST = createRoute({
  method: 'get',
  path: '/sessions',
  summary: 'Lists sessions of step machines, or the steps that wait for persons',
  request: { query: SessionsQuery },
  responses: { 200: describeJson('The sessions.', ListedSessionsSchema), ...PROBLEM },
});

const START = createRoute({
  method: 'post',
  path: '/sessions',
  summary: 'Starts a session of a step machine that the stack has loaded',
  request: { query: SessionWaitQuery, body: describeBody(StartSessionBody) },
  responses: { 201: describeJson('The session has its first prompt.', SessionResultSchema), ...RESULTS },
});

const READ = createRoute({
  method: 'get',
  path: '/sessions/{session}',
  summary: 'Reads a session: its open steps and its last answer',
  request: { params: SessionPath },
  responses: { 200: describeJson('The session.', SessionSchema), ...PROBLEM },
});

const HISTORY = createRoute({
  method: 'get',
  path: '/sessions/{session}/history',
  summary: 'Reads the completed steps of a session, oldest first, as lines of JSON',
  request: { params: SessionPath },
  responses: {
    200: { description: 'The records.', content: { [LINES_TYPE]: { schema: StepRecordSchema } } },
    ...PROBLEM,
  },
});

const RESULT = createRoute({
  method: 'get',
  path: '/sessions/{session}/result',
  summary: 'Waits until a session has no work in progress',
  request: { params: SessionPath, query: SessionWaitQuery },
  responses: { 200: describeJson('The result that a client gets now.', SessionResultSchema), ...RESULTS },
});

const ADVANCE = createRoute({
  method: 'post',
  path: '/sessions/{session}/advance',
  summary: 'Answers a step of a session; the same answer gets the same result',
  request: { params: SessionPath, query: SessionWaitQuery, body: describeBody(AdvanceBody) },
  responses: {
    200: describeJson('The next result. A refused answer is a result, too.', SessionResultSchema),
    ...RESULTS,
  },
});

const CANCEL = createRoute({
  method: 'post',
  path: '/sessions/{session}/cancel',
  summary: 'Ends a session and stops its actions',
  request: { params: SessionPath, query: SessionWaitQuery },
  responses: {
    200: describeJson('The session has ended.', CancelledSessionSchema),
    202: describeJson('The session has not ended yet.', CancelledSessionSchema),
    ...PROBLEM,
  },
});

export function addSessionRoutes(routes: OpenAPIHono, options: ApiOptions): void {
  addSessionReads(routes, options);
  addSessionChanges(routes, options);
}

function addSessionReads(
  routes: OpenAPIHono,
  { machine, limits, openSessions = openServiceSessions }: ApiOptions,
): void {
  routes.openapi(LIST, async (context) => {
    const { limit = DEFAULT_LIMIT, state, waiting = false } = context.req.valid('query');
    if (waiting && state !== undefined && state !== 'open')
      throw createRequestError('api/invalid-request', '`state`: a session that waits for a person is open');
    const caller = getCaller(context);
    const isVisible =
      caller.kind === 'token' && caller.token.runs.length > 0
        ? (session: string) => mayUseSession(caller, session)
        : undefined;
    const sessions = await openSessions(machine);
    // One more than the page shows whether there are more.
    const query = { limit: limit + 1, isVisible };
    if (waiting) {
      const { sessions: found, unasked } = toWaitingJson(await sessions.listWaiting(query));
      return context.json({ sessions: found.slice(0, limit), unasked, hasMore: found.length > limit }, 200);
    }
    const found = await sessions.list({ ...query, state });
    return context.json(
      { sessions: found.slice(0, limit).map(toListedSessionJson), hasMore: found.length > limit },
      200,
    );
  });
  routes.openapi(READ, async (context) => {
    const session = readSession(context);
    const view = await (await openSessions(machine)).view(session);
    // The page of the Temporal UI is on the machine of the service.
    return context.json(toSessionJson(view, null), 200);
  });
  routes.openapi(HISTORY, async (context) => {
    const session = readSession(context);
    const records = (await openSessions(machine)).readHistory(session);
    const body = streamTexts(await readFirstPiece(writeLines(records)), {
      stalledMs: limits.stalledMs,
      pieceBytes: limits.pieceBytes,
      heartbeat: null,
      onGone: () => undefined,
    });
    // Lines of JSON have no type of their own in hono.
    return new Response(body, { headers: { 'content-type': LINES_TYPE } }) as Response &
      TypedResponse<never, 200, 'json'>;
  });
}

function addSessionChanges(
  routes: OpenAPIHono,
  { machine, log, openSessions = openServiceSessions }: ApiOptions,
): void {
  const waits = createSessionWaits(MOST_SESSION_WAITS);
  routes.openapi(START, async (context) => {
    const body = context.req.valid('json');
    const { session, variables, skill, ...rest } = body;
    if (!isSessionName(session)) throw createRequestError('api/invalid-request', `\`session\`: ${SESSION_NAME_RULE}`);
    requireSession(getCaller(context), session);
    // The code of the step machine gets only variables of the request.
    const sessions = await openSessions({ ...machine, env: { ...machine.env, variables, undecodable: [] } });
    const onProgress = (line: string): void => log(`session ${session}: ${line}`);
    const start: SessionStart = { session, request: { skill, ...dropUndefined(rest) }, passed: [], onProgress };
    // Another start with the id is no repetition of this one.
    const name = JSON.stringify(['start', session, hashJson(body)]);
    const begun = await waits.join(name, () => sessions.start(start), readWait(context));
    context.header('location', `/api/v1/sessions/${encodeURIComponent(session)}`);
    return begun === null
      ? context.json({ session, result: null }, 202)
      : context.json({ session, result: begun.value }, 201);
  });
  routes.openapi(RESULT, async (context) => {
    const session = readSession(context);
    const sessions = await openSessions(machine);
    const name = JSON.stringify(['result', session]);
    const settled = await waits.join(name, () => sessions.settle(session), readWait(context));
    return answerWithResult(context, session, settled);
  });
  routes.openapi(ADVANCE, async (context) => {
    const session = readSession(context);
    const { step, turn, output } = context.req.valid('json');
    const given: GivenStep = { step, turn, output };
    const sessions = await openSessions(machine);
    const name = JSON.stringify(['advance', session, hashJson(given)]);
    const next = await waits.join(name, () => sessions.advance(session, given), readWait(context));
    return answerWithResult(context, session, next);
  });
  routes.openapi(CANCEL, async (context) => {
    const session = readSession(context);
    const sessions = await openSessions(machine);
    const name = JSON.stringify(['cancel', session]);
    const ended = await waits.join(name, () => sessions.cancel(session), readWait(context));
    return ended === null
      ? context.json({ session, wasOpen: true, hasEnded: false }, 202)
      : context.json({ session, wasOpen: ended.value, hasEnded: true }, 200);
  });
}

/** @throws AppError `api/no-session` for a text that no session has as its id */
function readSession(context: Context): string {
  const session = readSegment(context, SESSION_SEGMENT, 'the id of the session');
  if (isSessionId(session)) return session;
  throw createRequestError('api/no-session', `there is no session \`${shorten(session)}\``);
}

type Given<T> = { readonly [Key in keyof T]?: Exclude<T[Key], undefined> };

function dropUndefined<T extends object>(value: T): Given<T> {
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as Given<T>;
}

function hashJson(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex');
}

function answerWithResult(
  context: Context,
  session: string,
  found: { readonly value: Awaited<ReturnType<SessionControl['settle']>> } | null,
) {
  return found === null
    ? context.json({ session, result: null }, 202)
    : context.json({ session, result: found.value }, 200);
}

function readWait(context: Context): Wait {
  const { wait = SESSION_WAIT_SECONDS } = context.req.valid('query' as never) as { readonly wait?: number };
  return { waitMs: wait * 1_000, signal: context.req.raw.signal };
}

async function* writeLines(records: AsyncIterable<unknown>): AsyncGenerator<string> {
  for await (const record of records) yield `${JSON.stringify(record)}\n`;
}
