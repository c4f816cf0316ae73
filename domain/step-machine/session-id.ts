/** Ids of durable sessions. One is a workflow's id and the name of a folder, so that it leads out of none. */

/** What a session may be called by who starts it. */
const NAMED = /^(?!\.)[A-Za-z0-9._-]{1,128}$/;
/** With `~`, of those that sessions call. */
const ANY = /^(?![.~])[A-Za-z0-9._~-]{1,200}$/;
const CALL = '~';

/** What to do about a name that is none. */
export const SESSION_NAME_RULE = 'Use 1 to 128 of A-Z, a-z, 0-9, ".", "_", "-", not starting with ".".';
/** The same of every id, as the end of a sentence. */
export const SESSION_ID_RULE = '1 to 200 of A-Z, a-z, 0-9, ".", "_", "-", "~", not starting with "." or "~"';

export function isSessionName(text: string): boolean {
  return NAMED.test(text);
}

export function isSessionId(text: string): boolean {
  return ANY.test(text);
}

/** The session that another one calls in a turn. */
export function createChildSessionId(caller: string, turn: number): string {
  return `${caller}${CALL}${turn}`;
}

/** Whether `session` can be one that `caller` called. */
export function isCallOf(caller: string, session: string): boolean {
  return session.startsWith(`${caller}${CALL}`) && /^\d{1,16}$/.test(session.slice(caller.length + CALL.length));
}

export function isCalledSession(session: string): boolean {
  return session.includes(CALL);
}

/** Ids of sessions that are called begin with those of their callers. */
export function outermostSession(session: string): string {
  return session.split(CALL, 1)[0]!;
}
