/** The machine of requests to the API: the stack that the process belongs to, and no person. */
import type { Machine } from '../app/machine.ts';
import { readStack } from '../client/embedded/stack.ts';
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
    stackLink: keepStackLink(env),
    warn: (line) => Promise.resolve(log(line)),
  };
}

/** Returns one connection for all requests, and another one when the server of the stack has another address. */
function keepStackLink(env: Environment): () => Promise<ServerLink | null> {
  let link: ServerLink | null = null;
  let last: Promise<unknown> = Promise.resolve();
  const renew = async (): Promise<ServerLink | null> => {
    const stack = await readStack(env);
    if (stack === null) return null;
    if (link?.address() !== stack.address) link = await openServerLink({ env }, { start: false });
    return link;
  };
  return () => {
    // One after the other: connections stay open, so two requests must not open two.
    const next = last.then(renew);
    last = next.catch(() => undefined);
    return next;
  };
}
