/** Requests of the owner of the state folder, for tests of routes. */
import type { Api } from '../../../server/api.ts';
import type { Bindings } from '../../../server/listener.ts';
import type { AccessStore } from '../../../store/access.ts';

export const OWNER: Bindings = { connection: { listener: 'unix', address: null, end: () => undefined } };

/** A request of the owner needs no tokens. */
export function refuseAccess(): Promise<AccessStore> {
  return Promise.reject(new Error('a request of the owner asks for no tokens'));
}

/** Returns the API as a connection of its Unix socket reaches it. */
export function openAsOwner(api: Api): Pick<Api, 'request'> {
  return { request: (input, init) => api.request(input, init, OWNER) };
}
