/**
 * Ids of durable sessions. An id is also the id of a workflow and the name of a folder, so it cannot lead out of its
 * parent folder.
 */

/** Names that a client may choose for a session. */
const NAMED = /^(?!\.)[A-Za-z0-9._-]{1,128}$/;
/** Ids of sessions that sessions call contain `~` too. */
const ANY = /^(?![.~])[A-Za-z0-9._~-]{1,200}$/;
const CALL = '~';

/** The remedy for an invalid name. */
export const SESSION_NAME_RULE = 'Use 1 to 128 of A-Z, a-z, 0-9, ".", "_", "-", not starting with ".".';
/** The rule for every id, as the end of a sentence. */
export const SESSION_ID_RULE = '1 to 200 of A-Z, a-z, 0-9, ".", "_", "-", "~", not starting with "." or "~"';

export function isSessionName(text: string): boolean {
  return NAMED.test(text);
}

export function isSessionId(text: string): boolean {
  return ANY.test(text);
}

/** The id of the session that another session calls in a turn. */
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

/** The id of the outermost caller: the id of a called session begins with the id of its caller. */
export function outermostSession(session: string): string {
  return session.split(CALL, 1)[0]!;
}
