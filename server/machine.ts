/** The machine of requests to the API: the stack that the process belongs to, and no person. */
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
    stackLink: keepStackLink(
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
