/** Against a server of TLS on this machine, which stands for GitHub's. */
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { REMOTE_SKILL_LIMITS, type RemoteSource, AgentSkillUnavailable } from '../../activities/ports/remote-skills.ts';
import { LOCALHOST_CERTIFICATE, LOCALHOST_KEY } from '../../test/rig/servers/localhost-certificate.ts';
import { isClosedAddress } from '../../http/closed-addresses.ts';
import { createAgentSkillFetcher, type SkillServer } from './fetch-skill.ts';

let server: Server;
let origin = '';
const asked: string[] = [];
let busy = 0;

const ANSWERS: Readonly<Record<string, { readonly status: number; readonly body?: string; readonly to?: string }>> = {
  '/a/whole/main/SKILL.md': { status: 200, body: 'At the root.' },
  '/a/whole/main/skills/named/SKILL.md': { status: 200, body: 'By its name.' },
  '/a/most/main/SKILL.md': { status: 200, body: 'x'.repeat(REMOTE_SKILL_LIMITS.sizeBytes) },
  '/a/large/main/SKILL.md': { status: 200, body: 'x'.repeat(REMOTE_SKILL_LIMITS.sizeBytes + 1) },
  '/a/moved/main/SKILL.md': { status: 302, to: '/a/whole/main/SKILL.md' },
  '/a/round/main/SKILL.md': { status: 302, to: '/a/round/main/SKILL.md' },
  '/a/plain/main/SKILL.md': { status: 302, to: 'http://localhost/x' },
  '/a/named/main/SKILL.md': { status: 302, to: 'https://user:word@localhost/x' },
  '/a/metadata/main/SKILL.md': { status: 302, to: 'https://169.254.169.254/latest' },
  '/a/six/main/SKILL.md': { status: 302, to: 'https://[::ffff:10.0.0.1]/x' },
  '/a/number/main/SKILL.md': { status: 302, to: 'https://0x7f000001/x' },
  '/a/rebound/main/SKILL.md': { status: 302, to: 'https://inside.example/x' },
};

beforeAll(async () => {
  server = createServer({ key: LOCALHOST_KEY, cert: LOCALHOST_CERTIFICATE }, (request, response) => {
    const path = request.url ?? '';
    asked.push(path);
    if (path.includes('/busy/')) {
      busy += 1;
      response.writeHead(busy < 3 ? 503 : 200).end(busy < 3 ? '' : 'After all.');
      return;
    }
    if (path.includes('/cut/')) {
      response.writeHead(200, { 'content-length': '100' }).write('half');
      response.socket?.end();
      return;
    }
    if (path.includes('/silent/')) return;
    const { status, body = '', to } = ANSWERS[path] ?? { status: 404 };
    response.writeHead(status, to === undefined ? {} : { location: to }).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  origin = `https://localhost:${(server.address() as AddressInfo).port}`;
});

afterAll(() => {
  server.closeAllConnections();
  server.close();
});

async function fetched(source: RemoteSource, said: Partial<SkillServer> = {}, limitMs = 15_000): Promise<string> {
  const fetch = createAgentSkillFetcher({
    origin,
    ca: LOCALHOST_CERTIFICATE,
    // The server itself is on an address that is closed otherwise.
    isClosed: (address) => address !== '127.0.0.1' && isClosedAddress(address),
    resolve: (host) => Promise.resolve([{ address: host === 'localhost' ? '127.0.0.1' : '192.168.7.7', family: 4 }]),
    ...said,
  });
  return Buffer.from(await fetch(source, AbortSignal.timeout(limitMs))).toString('utf8');
}

const at = (name: string): RemoteSource => ({ repository: `a/${name}`, skill: null });

it('gets the document at the root, by its name, of the most bytes, and behind a redirect', async () => {
  expect(await fetched(at('whole'))).toBe('At the root.');
  expect(await fetched({ repository: 'a/whole', skill: 'named' })).toBe('By its name.');
  expect(await fetched(at('most'))).toHaveLength(REMOTE_SKILL_LIMITS.sizeBytes);
  expect(await fetched(at('moved'))).toBe('At the root.');
});

it('asks a server that is busy again, and no other', async () => {
  expect(await fetched(at('busy'))).toBe('After all.');
  asked.length = 0;
  await expect(fetched(at('missing'))).rejects.toThrow(
    /^https:\/\/localhost:\d+\/a\/missing\/main\/SKILL\.md: the server answers with status 404$/,
  );
  expect(asked).toHaveLength(1);
});

it.each([
  ['large', 'more than 128 KiB'],
  ['round', 'more than 3 redirects'],
  ['plain', 'no plain https address'],
  ['named', 'no plain https address'],
  ['metadata', '169.254.169.254 is 169.254.169.254, an address of this host or of a private network'],
  ['six', 'of a private network'],
  ['rebound', 'inside.example is 192.168.7.7'],
])('the fetch of the document "%s" fails', async (name, reason) => {
  await expect(fetched(at(name))).rejects.toThrow(reason);
});

it('reaches no address of this host, by a number in another form or by the lookup of a name', async () => {
  const isClosed = isClosedAddress;
  await expect(fetched(at('whole'), { isClosed })).rejects.toThrow('localhost is 127.0.0.1');
  const before = asked.length;
  await expect(
    fetched(at('number'), { isClosed: (address) => asked.length > before && isClosedAddress(address) }),
  ).rejects.toThrow('127.0.0.1 is 127.0.0.1');
  const both = [
    { address: '1.1.1.1', family: 4 },
    { address: '::1', family: 6 },
  ];
  await expect(fetched(at('whole'), { isClosed, resolve: () => Promise.resolve(both) })).rejects.toThrow('::1');
});

it('a truncated answer fails, and a missing answer fails after the time limit', async () => {
  await expect(fetched(at('cut'))).rejects.toBeInstanceOf(AgentSkillUnavailable);
  await expect(fetched(at('silent'), {}, 500)).rejects.toThrow('no answer within');
});

it('a certificate of an unknown signer is rejected', async () => {
  await expect(fetched(at('whole'), { ca: undefined })).rejects.toThrow('certificate');
});
