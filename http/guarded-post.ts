/**
 * Sends a POST to a URL that a spec or an answer chose. It reaches no address of this machine or of a private network,
 * reads no body of an answer, and ends within a time.
 */
import { lookup as lookUp, type LookupAddress } from 'node:dns';
import { type IncomingMessage, request as requestPlain, type RequestOptions } from 'node:http';
import { request as requestTls } from 'node:https';
import { isIP, type Socket } from 'node:net';
import { sanitizeLine } from '../domain/security/sanitize.ts';
import { isClosedAddress } from './closed-addresses.ts';

export const POST_LIMITS = {
  /** For all redirects together. */
  timeMs: 15_000,
  redirects: 3,
  /** Bytes of the headers of an answer. */
  headerBytes: 16 * 1_024,
} as const;

/** The longest lookup of `findClosedTarget`. */
const LOOKUP_MS = 3_000;

export interface GuardedPost {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Sent only to the origin of `url`, and to no other one that a redirect names. */
  readonly privateHeaders: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface PostGuard {
  /** Whether the operator opened a host: a name in lower case, or an address without brackets. */
  readonly isOpened: (host: string, port: number) => boolean;
  /** Other values are for tests. */
  readonly isClosed?: (address: string) => boolean;
  readonly resolve?: (host: string) => Promise<readonly LookupAddress[]>;
  readonly timeMs?: number;
  /** The certificate of a server that signed its own one. */
  readonly ca?: string;
}

export type PostResult =
  /** The status is not that of a redirect. */
  | { readonly kind: 'answered'; readonly status: number }
  | { readonly kind: 'failed'; readonly code: PostFailureCode; readonly problem: string };

export type PostFailureCode = 'notify/closed-address' | 'notify/bad-redirect' | 'notify/no-answer';

/** Never rejects. */
export async function sendGuarded(post: GuardedPost, guard: PostGuard): Promise<PostResult> {
  const limit = new AbortController();
  const { timeMs = POST_LIMITS.timeMs } = guard;
  const timer = setTimeout(() => limit.abort(new Error(`no answer within ${timeMs / 1_000} s`)), timeMs);
  try {
    return { kind: 'answered', status: await sendFollowing(post, guard, limit.signal) };
  } catch (error) {
    const code = error instanceof PostRefusal ? error.code : 'notify/no-answer';
    const cause: unknown = limit.signal.aborted ? limit.signal.reason : error;
    return { kind: 'failed', code, problem: sanitizeLine(describeCause(cause)) };
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Looks up a URL as a POST would, and sends nothing. A name without an address is no reason: its receiver may get one
 * later. Never rejects.
 * @returns why a POST is refused: the receiver has no TLS, or a closed address. Null: it is not refused
 */
export async function findClosedTarget(text: string, guard: PostGuard): Promise<string | null> {
  const limit = new AbortController();
  const timer = setTimeout(() => limit.abort(new Error('no address in time')), guard.timeMs ?? LOOKUP_MS);
  try {
    await openTarget(parseTarget(text, null), guard, limit.signal);
    return null;
  } catch (error) {
    return error instanceof PostRefusal && error.code === 'notify/closed-address' ? sanitizeLine(error.message) : null;
  } finally {
    clearTimeout(timer);
  }
}

class PostRefusal extends Error {
  readonly code: PostFailureCode;

  constructor(code: PostFailureCode, message: string) {
    super(message);
    this.code = code;
  }
}

function describeCause(error: unknown): string {
  const { message, errors, code } = error as Error & { readonly errors?: readonly Error[]; readonly code?: string };
  // Node tries several addresses of a host, and its error has no message of its own.
  return message || (errors?.map((one) => one.message).join('; ') ?? String(code));
}

async function sendFollowing(post: GuardedPost, guard: PostGuard, signal: AbortSignal): Promise<number> {
  const first = parseTarget(post.url, null);
  let url = first;
  for (let followed = 0; followed <= POST_LIMITS.redirects; followed += 1) {
    const headers = url.origin === first.origin ? { ...post.headers, ...post.privateHeaders } : post.headers;
    const answer = await send(url, { headers, body: post.body }, { guard, signal });
    answer.destroy();
    const { statusCode: status = 0, headers: answered } = answer;
    if (status < 300 || status >= 400 || status === 304) return status;
    if (status !== 307 && status !== 308)
      throw new PostRefusal(
        'notify/bad-redirect',
        `the receiver redirects with status ${status}; 307 and 308 keep a POST`,
      );
    if (answered.location === undefined) throw new PostRefusal('notify/bad-redirect', 'a redirect without a location');
    url = parseTarget(answered.location, url);
  }
  throw new PostRefusal('notify/bad-redirect', `more than ${POST_LIMITS.redirects} redirects`);
}

/** @param from  the URL that redirects; null: the text is the receiver's own URL, which may be a secret */
function parseTarget(text: string, from: URL | null): URL {
  const url = URL.canParse(text, from?.href) ? new URL(text, from?.href) : null;
  if (url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '') return url;
  throw from === null
    ? new PostRefusal('notify/no-answer', 'the URL of the receiver cannot be used')
    : new PostRefusal('notify/bad-redirect', `a redirect to ${JSON.stringify(text.slice(0, 200))}`);
}

interface Sending {
  readonly guard: PostGuard;
  readonly signal: AbortSignal;
}

async function send(
  url: URL,
  { headers, body }: Pick<GuardedPost, 'headers' | 'body'>,
  { guard, signal }: Sending,
): Promise<IncomingMessage> {
  return await exchange(url, { headers, body, ...(await openTarget(url, guard, signal)) }, { guard, signal });
}

interface Target {
  readonly addresses: readonly LookupAddress[];
  /** @throws PostRefusal */
  readonly check: (address: string) => void;
}

/** @throws PostRefusal */
async function openTarget(url: URL, guard: PostGuard, signal: AbortSignal): Promise<Target> {
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '');
  const isTls = url.protocol === 'https:';
  const port = url.port === '' ? (isTls ? 443 : 80) : Number(url.port);
  const isOpened = guard.isOpened(host, port);
  if (!isTls && !isOpened)
    throw new PostRefusal('notify/closed-address', `${url.host} has no TLS, and its host is not opened`);
  const { isClosed = isClosedAddress } = guard;
  const check = (address: string): void => {
    if (isOpened || !isClosed(address)) return;
    throw new PostRefusal(
      'notify/closed-address',
      `${url.host} is ${address}, an address of this machine or of a private network`,
    );
  };
  const addresses = await findAddresses(host, guard, signal);
  for (const { address } of addresses) check(address);
  return { addresses, check };
}

async function findAddresses(
  host: string,
  { resolve = resolveName }: PostGuard,
  signal: AbortSignal,
): Promise<readonly LookupAddress[]> {
  if (isIP(host) !== 0) return [{ address: host, family: isIP(host) }];
  // A lookup of the system cannot be ended.
  const ended = new Promise<never>((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });
  const found = await Promise.race([resolve(host), ended]);
  if (found.length === 0) throw new Error(`${host} has no address`);
  return found;
}

interface Exchange extends Pick<GuardedPost, 'headers' | 'body'>, Target {}

/** Connects without a second lookup, and sends nothing before it has checked the address of the socket. */
async function exchange(
  url: URL,
  { headers, body, addresses, check }: Exchange,
  { guard: { ca }, signal }: Sending,
): Promise<IncomingMessage> {
  const bytes = Buffer.from(body);
  const options: RequestOptions = {
    method: 'POST',
    signal,
    agent: false,
    maxHeaderSize: POST_LIMITS.headerBytes,
    lookup: (_host, { all }, done) =>
      all === true ? done(null, [...addresses]) : done(null, addresses[0]!.address, addresses[0]!.family),
    headers: { 'user-agent': 'voidbox', ...headers, 'content-length': String(bytes.byteLength) },
  };
  return await new Promise((resolve, reject) => {
    const request =
      url.protocol === 'https:'
        ? requestTls(url, { ...options, ...(ca === undefined ? {} : { ca }) }, resolve)
        : requestPlain(url, options, resolve);
    request.on('error', reject);
    request.on('socket', (socket: Socket) => {
      socket.once('connect', () => {
        try {
          check(socket.remoteAddress ?? '');
          request.end(bytes);
        } catch (error) {
          request.destroy(error as Error);
        }
      });
    });
  });
}

function resolveName(host: string): Promise<readonly LookupAddress[]> {
  return new Promise((resolve, reject) =>
    lookUp(host, { all: true }, (error, addresses) => (error === null ? resolve(addresses) : reject(error))),
  );
}
