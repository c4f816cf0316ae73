import type { ServeNews } from '../../../client/service/serve-messages.ts';
import type { RunningService } from '../../../client/service/serving.ts';
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

/** The processes of `voidbox serve`, for `ps`. */
export function renderServices(services: readonly RunningService[]): string[] {
  return services.flatMap(({ pid, sockets, listeners }) => {
    const places = [...sockets, ...listeners.map(({ url }) => url)].map(sanitizeLine);
    const lines = places.length === 0 ? ['no address'] : places;
    return lines.map(
      (place, at) => `${at === 0 ? 'serve     ' : '          '}  ${place}${at === 0 ? ` (process ${pid})` : ''}`,
    );
  });
}
