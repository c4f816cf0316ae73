/** The machine of requests to the API: the stack, or your own Temporal server, and no person. */
import type { Machine } from '../app/machine.ts';
import { readStack, type StackInfo } from '../client/embedded/stack.ts';
import { openServerLink, type ServerLink } from '../client/temporal/server-link.ts';
import type { Environment } from '../setup/environment.ts';
import { openStores } from '../store/open-stores.ts';
import type { Stores } from '../store/stores.ts';

export function createApiMachine(env: Environment, log: (line: string) => void): Machine {
  let stores: Promise<Stores> | null = null;
  return {
    env,
    cwd: '/',
    readStdin: () => Promise.reject(new Error('a request has no standard input')),
    confirm: () => Promise.resolve(null),
    stores: () => (stores ??= openStores(env)),
    now: () => new Date(),
    stackLink: env.temporalConfigured
      ? keepOwnLink(() => openServerLink({ env }, { start: false }))
      : keepStackLink(
          () => readStack(env),
          () => openServerLink({ env }, { start: false }),
        ),
    warn: (line) => Promise.resolve(log(line)),
  };
}

/**
 * Returns one connection for all requests, and another one when the server of the stack has another address. Requests
 * at the same time share one look for the stack: connections stay open, so two requests must not open two.
 */
export function keepStackLink(
  findStack: () => Promise<Pick<StackInfo, 'address'> | null>,
  open: () => Promise<ServerLink | null>,
): () => Promise<ServerLink | null> {
  let link: ServerLink | null = null;
  let pending: Promise<ServerLink | null> | null = null;
  const renew = async (): Promise<ServerLink | null> => {
    const stack = await findStack();
    if (stack === null) return null;
    if (link?.address() !== stack.address) link = await open();
    return link;
  };
  return () => (pending ??= renew().finally(() => (pending = null)));
}

/**
 * Returns one connection to your own server for all requests, which connects again on its own. Requests at the same time
 * share one try, and a failed one is not kept.
 */
export function keepOwnLink(open: () => Promise<ServerLink | null>): () => Promise<ServerLink | null> {
  let kept: Promise<ServerLink | null> | null = null;
  return async () => {
    const own = (kept ??= open());
    try {
      return await own;
    } catch (error) {
      if (kept === own) kept = null;
      throw error;
    }
  };
}
