/** Asks the server of the runs, without starting one. */
import { NoServerError } from '../../client/temporal/no-server.ts';
import type { ServerLink } from '../../client/temporal/server-link.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import type { Machine } from '../machine.ts';
import { openRunsLink } from '../server-link.ts';

/** Voidbox does not start your own server again, so the shown state may be old. Each command warns once. */
async function warnOnce(context: Machine, error: unknown): Promise<void> {
  if (warned.has(context)) return;
  warned.add(context);
  const { serverMessageOf } = await import('../../client/temporal/unavailable.ts');
  const line = `${serverMessageOf(error)}; the list shows what this host recorded`;
  await context.warn(sanitizeLine(line));
}

const warned = new WeakSet<Machine>();

/** True if the user must change a setting; false if a server does not answer. */
function isRefusal(error: unknown): boolean {
  if (error instanceof NoServerError) return error.kind === 'refused';
  return error instanceof Error && error.name === 'SetupError';
}

/** A command connects once, because a second attempt at a server that does not answer would take as long again. */
const links = new WeakMap<Machine, Promise<ServerLink | null>>();

async function linkOf(context: Machine): Promise<ServerLink | null> {
  // The stack of such a process may get another address.
  if (context.stackLink !== undefined) return await context.stackLink();
  const link = links.get(context) ?? openRunsLink(context, { start: false });
  links.set(context, link);
  return await link;
}

export interface AskOptions {
  /** Absent: as long as connections and calls take. */
  readonly mostMs?: number;
  /** Handling of a wrong setting for your own server; absent: it is thrown. */
  readonly refusals?: 'throw' | 'warn';
}

/**
 * Asks the server of the runs, and starts none.
 * @returns null without a server, or if the server does not answer; a warning reports this for your own server
 * @throws NoServerError, SetupError if the settings for your own server are wrong
 */
export async function askRunningServer<T>(
  context: Machine,
  ask: (link: ServerLink) => Promise<T>,
  { mostMs, refusals = 'throw' }: AskOptions = {},
): Promise<T | null> {
  try {
    const asked = linkOf(context).then((link) => (link === null ? null : ask(link)));
    return await (mostMs === undefined ? asked : rejectAfter(asked, mostMs));
  } catch (error) {
    // Wrong settings for a server are an error. If a server stops answering, the stored state counts.
    if (!context.env.temporalConfigured) return null;
    if (refusals === 'throw' && isRefusal(error)) throw error;
    await warnOnce(context, error);
    return null;
  }
}

async function rejectAfter<T>(asked: Promise<T>, mostMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () => reject(new Error(`the Temporal server does not answer within ${mostMs / 1_000} s`)),
      mostMs,
    );
  });
  try {
    return await Promise.race([asked, late]);
  } finally {
    clearTimeout(timer);
    asked.catch(() => undefined);
  }
}
