/** The options of a client, and their checks. */

export interface ClientOptions {
  /**
   * The service: `https://HOST:PORT`, or `http://` for this machine. In a page of a browser it may be absent: then the
   * page's own origin is the service.
   */
  readonly url?: string | undefined;
  /** A token, which a connection over TCP needs. It is sent in a header only, and no error has it. */
  readonly token?: string | undefined;
  /** Sends requests instead of the global `fetch`, for example over a Unix socket. */
  readonly fetch?: FetchFunction | undefined;
}

/** Like the global `fetch`. */
export type FetchFunction = (url: string, init: RequestInit) => Promise<Response>;

/** The options of each call. */
export interface CallOptions {
  /** Ends the call with the reason of the signal. A change that was sent may still happen. */
  readonly signal?: AbortSignal | undefined;
}

/** The globals of a page; in Node it has no location. */
interface Page {
  readonly location?: { readonly origin?: string };
}

export interface Target {
  /** The origin of the service. */
  readonly origin: string;
  readonly token: string | null;
  readonly send: FetchFunction;
}

const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;
const MOST_TOKEN_CHARACTERS = 1_000;

/** @throws TypeError, which never contains the token */
export function readTarget({ url, token, fetch: send }: ClientOptions, page: Page = globalThis as Page): Target {
  const place = parsePlace(url ?? readOwnOrigin(page));
  if (token !== undefined) {
    if (typeof token !== 'string' || token.length > MOST_TOKEN_CHARACTERS || !/^[\x21-\x7e]+$/.test(token))
      throw new TypeError('`token` is not the text of a token. Pass the line that `voidbox token create` printed.');
    if (place.protocol === 'http:' && !LOOPBACK.test(place.hostname) && send === undefined)
      throw new TypeError(
        `\`url\` would send the token to ${place.hostname} without encryption. Use \`https://\`; \`http://\` is only for this machine.`,
      );
  }
  return {
    origin: place.origin,
    token: token ?? null,
    // The browser's function needs its own object.
    send: send ?? ((target, init) => fetch(target, init)),
  };
}

function parsePlace(url: string): URL {
  let place: URL;
  try {
    place = new URL(url);
  } catch {
    throw new TypeError('`url` is not a URL. Pass https://HOST:PORT.');
  }
  const isPlain = place.pathname === '/' && place.search === '' && place.hash === '';
  // The text may contain a password, so no message has it.
  if (!/^https?:$/.test(place.protocol) || !isPlain || place.username !== '' || place.password !== '')
    throw new TypeError('`url` has more than a scheme, a host and a port. Pass https://HOST:PORT.');
  return place;
}

/** @throws TypeError outside of a page */
function readOwnOrigin({ location }: Page): string {
  if (typeof location?.origin === 'string' && /^https?:/.test(location.origin)) return location.origin;
  throw new TypeError('`url` is missing. Only a page of the service can leave it out.');
}
