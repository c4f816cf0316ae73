/** The messages of the process that serves the HTTP API to the supervisor. Both sides are here. */

/** `ready`: it accepts connections. `closed`: how many connections have ended since its start. */
export type ApiNews = { readonly ready: true } | { readonly closed: number };

export const API_READY: ApiNews = { ready: true };

/** @returns null for any other message */
export function parseApiNews(message: unknown): ApiNews | null {
  const { ready, closed } = (message ?? {}) as Readonly<Record<string, unknown>>;
  if (ready === true) return API_READY;
  return typeof closed === 'number' ? { closed } : null;
}
