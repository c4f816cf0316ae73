/** Fetches documents of GitHub repositories over HTTPS, and never from an address inside this host's network. */
import { Buffer } from 'node:buffer';
import { lookup as lookUp, type LookupAddress } from 'node:dns';
import type { IncomingMessage } from 'node:http';
import { get } from 'node:https';
import { isIP } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type FetchAgentSkill,
  REMOTE_SKILL_LIMITS,
  type RemoteSource,
  AgentSkillUnavailable,
} from '../../activities/ports/remote-skills.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { isClosedAddress } from '../../http/closed-addresses.ts';

const REDIRECTS = 3;
/** Pauses before further tries: a server that is busy is asked again, a document that is not there is not. */
const PAUSES_MS: readonly number[] = [500, 2_000];

export interface SkillServer {
  /** `https://HOST[:PORT]`; below it are `/OWNER/NAME/main/…`. */
  readonly origin: string;
  readonly isClosed: (address: string) => boolean;
  readonly resolve: (host: string) => Promise<readonly LookupAddress[]>;
  /** The certificate of a server that signed its own one. */
  readonly ca?: string | undefined;
}

const GITHUB: SkillServer = {
  origin: 'https://raw.githubusercontent.com',
  isClosed: isClosedAddress,
  resolve: (host) =>
    new Promise((found, failed) =>
      lookUp(host, { all: true }, (error, addresses) => (error === null ? found(addresses) : failed(error))),
    ),
};

/** A failure that another try would not change. */
class Final extends Error {}

export function createAgentSkillFetcher(server: SkillServer = GITHUB): FetchAgentSkill {
  return async (source, signal) => {
    const url = new URL(`${server.origin}/${source.repository}/main/${pathOf(source)}`);
    for (const pauseMs of [...PAUSES_MS, null]) {
      try {
        return await fetchFollowing(server, url, signal);
      } catch (error) {
        if (pauseMs === null || error instanceof Final || signal.aborted)
          throw createUnavailableError(url, error, signal);
        await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
      }
    }
    throw new Error('unreachable: the last try ends the loop');
  };
}

function pathOf({ skill }: RemoteSource): string {
  return skill === null ? 'SKILL.md' : `skills/${skill}/SKILL.md`;
}

function createUnavailableError(url: URL, error: unknown, signal: AbortSignal): AgentSkillUnavailable {
  const reason = signal.aborted
    ? `no answer within ${REMOTE_SKILL_LIMITS.timeoutMs / 1_000} s`
    : (error as Error).message;
  return new AgentSkillUnavailable(sanitizeLine(`${url.href}: ${reason}`), { cause: error });
}

async function fetchFollowing(server: SkillServer, first: URL, signal: AbortSignal): Promise<Uint8Array> {
  let url = first;
  for (let followed = 0; followed <= REDIRECTS; followed += 1) {
    const answer = await ask(server, url, signal);
    const { statusCode = 0, headers } = answer;
    if (statusCode === 200) return await bodyOf(answer);
    answer.destroy();
    if (statusCode < 300 || statusCode >= 400 || headers.location === undefined) throw refusal(statusCode);
    url = targetOf(headers.location, url);
  }
  throw new Final(`more than ${REDIRECTS} redirects`);
}

function refusal(statusCode: number): Error {
  const message = `the server answers with status ${statusCode}`;
  return statusCode >= 500 || statusCode === 429 ? new Error(message) : new Final(message);
}

function targetOf(location: string, from: URL): URL {
  const url = URL.canParse(location, from.href) ? new URL(location, from) : null;
  if (url === null || url.protocol !== 'https:' || url.username !== '' || url.password !== '')
    throw new Final(`a redirect to ${JSON.stringify(location.slice(0, 200))}, which is no plain https address`);
  return url;
}

/** Connects to the address that was checked, without a second lookup of the name. */
async function ask({ isClosed, resolve, ca }: SkillServer, url: URL, signal: AbortSignal): Promise<IncomingMessage> {
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  const addresses = isIP(host) === 0 ? await resolve(host) : [{ address: host, family: isIP(host) }];
  const shut = addresses.find(({ address }) => isClosed(address));
  if (shut !== undefined)
    throw new Final(`${url.hostname} is ${shut.address}, an address of this host or of a private network`);
  if (addresses.length === 0) throw new Error(`${url.hostname} has no address`);
  return await new Promise((answered, failed) => {
    const request = get(
      url,
      {
        signal,
        agent: false,
        lookup: (_, { all }, done) =>
          all === true ? done(null, [...addresses]) : done(null, addresses[0]!.address, addresses[0]!.family),
        headers: { 'user-agent': 'voidbox', accept: 'text/plain, */*', 'accept-encoding': 'identity' },
        ...(ca === undefined ? {} : { ca }),
      },
      answered,
    );
    request.on('error', failed);
  });
}

async function bodyOf(answer: IncomingMessage): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of answer as AsyncIterable<Uint8Array>) {
    bytes += part.byteLength;
    if (bytes > REMOTE_SKILL_LIMITS.sizeBytes)
      throw new Final(`it has more than ${REMOTE_SKILL_LIMITS.sizeBytes / 1_024} KiB`);
    parts.push(part);
  }
  if (!answer.complete) throw new Error('the answer was cut');
  return Buffer.concat(parts);
}
