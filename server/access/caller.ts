/** The caller of a request, as the check of access found it. */
import type { Context } from 'hono';
import type { Caller } from '../../app/access/authenticate.ts';

const callers = new WeakMap<Request, Caller>();

export function setCaller({ req }: Context, caller: Caller): void {
  callers.set(req.raw, caller);
}

/** @throws Error for a request that passed no check of access, which is a bug */
export function getCaller({ req }: Context): Caller {
  const caller = callers.get(req.raw);
  if (caller === undefined) throw new Error('the request passed no check of access');
  return caller;
}

/** False for a token, and for a request that was refused before its caller was known. */
export function isOwner({ req }: Context): boolean {
  return callers.get(req.raw)?.kind === 'owner';
}

const changedRuns = new WeakMap<Request, readonly string[]>();

/** Names the runs that a request changes, for the audit log, if its path does not. */
export function noteChangedRuns({ req }: Context, runIds: readonly string[]): void {
  changedRuns.set(req.raw, runIds);
}

/** @returns an empty list if the route noted no runs */
export function getChangedRuns({ req }: Context): readonly string[] {
  return changedRuns.get(req.raw) ?? [];
}
