/** The service on another machine that a command line uses instead of the stack of its own machine. */
export interface ServiceSettings {
  /** The text that names it, for messages: `https://build.example.org:7443`. */
  readonly name: string;
  readonly place: ServicePlace;
  /** Null: no token. It is never part of a URL, a message or a log. */
  readonly token: string | null;
  /** Certificates (PEM) that the client trusts instead of those of Node; null: those of Node. */
  readonly ca: string | null;
  /** The login of this user names it, and no variable. */
  readonly isLogin?: true;
}

export type ServicePlace =
  /** The socket of the API in a state folder, whose owner needs no token. */
  | { readonly kind: 'unix'; readonly path: string }
  | { readonly kind: 'tcp'; readonly isTls: boolean; readonly host: string; readonly port: number };

const URL_FORM = /^(https?):\/\/(\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?)(?::(\d{1,5}))?\/?$/i;
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|::1)$/i;
const DEFAULT_PORTS = { https: 443, http: 80 } as const;

/** @returns the place; else the problem of the text, as the rest of a sentence after it */
export function parseServicePlace(text: string): ServicePlace | { readonly problem: string } {
  if (text.startsWith('unix:')) {
    const path = text.slice('unix:'.length);
    return path.startsWith('/') ? { kind: 'unix', path } : { problem: 'has no absolute path after `unix:`' };
  }
  const [, scheme, name, digits] = URL_FORM.exec(text) ?? [];
  if (scheme === undefined || name === undefined)
    return { problem: 'is neither `https://HOST:PORT` nor `unix:/PATH/api.sock`' };
  const isTls = scheme.toLowerCase() === 'https';
  const host = name.replace(/^\[|\]$/g, '');
  const port = digits === undefined ? DEFAULT_PORTS[isTls ? 'https' : 'http'] : Number(digits);
  if (port < 1 || port > 65_535) return { problem: `has the port ${port}, which does not exist` };
  if (!isTls && !LOOPBACK.test(host))
    return { problem: `would send its token to ${host} without encryption: \`http://\` is only for this machine` };
  return { kind: 'tcp', isTls, host, port };
}
