/** Sessions through a service on another machine. */
import type { SessionView } from '../../activities/contract-session.ts';
import type { ListedSession } from '../../client/sessions/list.ts';
import type { WaitingSession, WaitingSessions } from '../../client/sessions/waiting-sessions.ts';
import type { ServiceSettings } from '../../domain/access/service-settings.ts';
import type { StepRecord } from '../../domain/step-machine/records.ts';
import type { SessionResult } from '../../domain/step-machine/result.ts';
import { createMapping } from '../../domain/units/mapping.ts';
import { connectService, createForeignError, type ServiceClient } from '../../http/service-client.ts';
import { isServiceError } from '../../http/service-error.ts';
import { readLines } from '../../http/text-lines.ts';
import { createUsageError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import type { GivenStep, SessionControl, SessionQuery, SessionStart } from './session-control.ts';
import { CHOOSE_ID, LIST_SESSIONS } from './session-remedies.ts';

/** The time that the service waits for the work of a session before it answers; less than the client waits. */
const WAIT_SECONDS = 20;

export function createRemoteSessions(service: ServiceSettings, { env }: Pick<Machine, 'env'>): SessionControl {
  const client = connectService(service);
  return {
    start: (request) => attempt(() => start(request, { client, env })),
    advance: (session, answer) => attempt(() => advance(session, answer, client)),
    settle: (session) => attempt(() => settle(session, client)),
    view: (session) => attempt(() => readView(session, client)),
    findPage: () => null,
    list: (query) => attempt(() => list(query, client)),
    listWaiting: (query) => attempt(() => listWaiting(query, client)),
    readHistory: (session) => readHistory(session, client),
    cancel: (session) => attempt(() => cancel(session, client)),
  };
}

/** A command has one code for its mistakes, whichever machine has the sessions. */
async function attempt<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    throw toCommandError(error);
  }
}

function toCommandError(error: unknown): unknown {
  if (!isServiceError(error)) return error;
  if (error.code === 'api/no-session') return createUsageError(error.message, LIST_SESSIONS);
  if (error.code === 'api/session-exists') return createUsageError(error.message, CHOOSE_ID);
  return error;
}

async function start(
  { session, request, passed, onProgress }: SessionStart,
  { client, env }: { readonly client: ServiceClient; readonly env: Machine['env'] },
): Promise<SessionResult> {
  const variables = pickVariables(passed, env);
  if (passed.length > 0) onProgress(`passes ${passed.join(', ')}`);
  const body = { json: { ...request, session, variables } };
  let tries = 0;
  const begun = await client.retry(async () => {
    tries += 1;
    try {
      return await client.change({ path: ['sessions'], query: { wait: WAIT_SECONDS }, body });
    } catch (error) {
      // An earlier try, whose connection broke, has started it.
      if (tries > 1 && isServiceError(error) && error.code === 'api/session-exists') return { session, result: null };
      throw error;
    }
  });
  return readResult(begun, client) ?? (await settle(session, client));
}

function pickVariables(names: readonly string[], { variables, undecodable }: Machine['env']): Record<string, string> {
  const picked = createMapping<string>();
  for (const name of names) {
    const value = undecodable.includes(name) ? undefined : variables[name];
    if (value === undefined)
      throw createUsageError(
        `--variable ${name}: this shell has no such variable with a text`,
        'Set it, or leave it out.',
      );
    picked[name] = value;
  }
  return picked;
}

async function settle(session: string, client: ServiceClient): Promise<SessionResult> {
  return await repeat(client, () =>
    client.readJson({ path: ['sessions', session, 'result'], query: { wait: WAIT_SECONDS } }),
  );
}

/** The same answer gets the same result, so it is sent again until the result is there. */
async function advance(session: string, answer: GivenStep, client: ServiceClient): Promise<SessionResult> {
  const request = { path: ['sessions', session, 'advance'], query: { wait: WAIT_SECONDS }, body: { json: answer } };
  return await repeat(client, () => client.retry(() => client.change(request)));
}

async function repeat(client: ServiceClient, ask: () => Promise<unknown>): Promise<SessionResult> {
  for (;;) {
    const result = readResult(await ask(), client);
    if (result !== null) return result;
  }
}

const KINDS: readonly unknown[] = ['prompt', 'done', 'waiting', 'redirect', 'error'] satisfies SessionResult['kind'][];

/** @returns null if the session still works */
function readResult(answer: unknown, { name }: ServiceClient): SessionResult | null {
  const { result } = (answer ?? {}) as { readonly result?: unknown };
  if (result === null) return null;
  if (isObject(result) && KINDS.includes(result['kind'])) return result as unknown as SessionResult;
  throw createForeignError(name);
}

async function readView(session: string, client: ServiceClient): Promise<SessionView> {
  const found = await client.readJson({ path: ['sessions', session] });
  const isView =
    isObject(found) &&
    [found['session'], found['skill'], found['version'], found['codeHash'], found['status']].every(isText) &&
    Array.isArray(found['open']) &&
    isObject(found['visits']);
  if (!isView) throw createForeignError(client.name);
  return found as unknown as SessionView;
}

async function list({ limit, state }: SessionQuery, client: ServiceClient): Promise<readonly ListedSession[]> {
  const answer = await client.readJson({ path: ['sessions'], query: { limit, state } });
  return readList(answer, 'sessions', client).map((one) => toListed(one, client));
}

async function listWaiting({ limit }: SessionQuery, client: ServiceClient): Promise<WaitingSessions> {
  const answer = await client.readJson({ path: ['sessions'], query: { limit, waiting: 'true' } });
  const sessions = readList(answer, 'sessions', client).map((one): WaitingSession => {
    const waiting = readList(one, 'waiting', client).map((each) => {
      const { step, turn, assignee, dueAt } = each as Partial<Record<string, unknown>>;
      if (!isText(step) || typeof turn !== 'number') throw createForeignError(client.name);
      return { step, turn, assignee: isText(assignee) ? assignee : null, dueMs: readTime(dueAt) };
    });
    return { ...toListed(one, client), waiting };
  });
  const unasked = readList(answer, 'unasked', client).map((one) => {
    const { session, reason } = one as Partial<Record<string, unknown>>;
    if (!isText(session) || !isText(reason)) throw createForeignError(client.name);
    return { session, reason };
  });
  return { sessions, unasked };
}

const STATES: readonly unknown[] = ['open', 'done', 'failed', 'cancelled'] satisfies ListedSession['state'][];

function toListed(one: unknown, { name }: ServiceClient): ListedSession {
  const { session, skill, state, startedAt, endedAt } = (one ?? {}) as Partial<Record<string, unknown>>;
  if (!isText(session) || !STATES.includes(state)) throw createForeignError(name);
  return {
    session,
    skill: isText(skill) ? skill : null,
    state: state as ListedSession['state'],
    startedAtMs: readTime(startedAt) ?? 0,
    endedAtMs: readTime(endedAt),
  };
}

function readList(answer: unknown, key: string, { name }: ServiceClient): readonly unknown[] {
  const list = isObject(answer) ? answer[key] : null;
  if (Array.isArray(list) && list.every(isObject)) return list;
  throw createForeignError(name);
}

function readTime(text: unknown): number | null {
  const ms = isText(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(ms) ? null : ms;
}

async function* readHistory(session: string, client: ServiceClient): AsyncGenerator<StepRecord> {
  const answer = await attempt(() => client.read({ path: ['sessions', session, 'history'] }));
  for await (const line of readLines(client.readBytes(answer))) {
    if (line === '') continue;
    yield parseRecord(line, client);
  }
}

function parseRecord(line: string, { name }: ServiceClient): StepRecord {
  let record: unknown;
  try {
    record = JSON.parse(line);
  } catch {
    record = null;
  }
  if (isObject(record) && isText(record['step']) && typeof record['turn'] === 'number')
    return record as unknown as StepRecord;
  throw createForeignError(name);
}

/** A session that had ended before the first request that arrived was not open. */
async function cancel(session: string, client: ServiceClient): Promise<boolean> {
  let wasOpen: boolean | null = null;
  for (;;) {
    const request = { path: ['sessions', session, 'cancel'], query: { wait: WAIT_SECONDS } };
    const answer = await client.retry(() => client.change(request));
    const { wasOpen: isOpen, hasEnded } = (isObject(answer) ? answer : {}) as Partial<Record<string, unknown>>;
    if (typeof isOpen !== 'boolean' || typeof hasEnded !== 'boolean') throw createForeignError(client.name);
    wasOpen ??= isOpen;
    if (hasEnded) return wasOpen;
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}
