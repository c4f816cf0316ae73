import type { ServeNews } from '../../../client/service/serve-messages.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';

export type ServedAddresses = Extract<ServeNews, { readonly listening: unknown }>['listening'];

/** Renders a line for each address. */
export function renderServed({ sockets, listeners }: ServedAddresses, publicUrl: string | null): readonly string[] {
  return [
    ...sockets.map((path) => `The HTTP API listens on unix:${sanitizeLine(path)}`),
    ...listeners.map(({ url }) => `The HTTP API listens on ${url}`),
    ...(publicUrl === null ? [] : [`Clients know it as ${publicUrl}`]),
  ];
}
