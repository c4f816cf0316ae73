/**
 * Git of the host fetches a URL of a server that requires a login. It uses the login, and neither result nor scratch
 * folder contains it.
 */
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type GitServer, type GitServerOptions, serveGit } from '../test/rig/git/git-server.ts';
import { LOCALHOST_CERTIFICATE } from '../test/rig/servers/localhost-certificate.ts';
import { fetchRepository } from './fetch-repository.ts';
import type { GitHost } from './run-git.ts';

const TOKEN = `token${randomBytes(12).toString('hex')}`;
const LOGIN = `ada:${TOKEN}`;

let folder: string;
let home: string;
let host: GitHost;
let head: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'fetch-repository-test-'));
  home = join(folder, 'home');
  const scratch = join(folder, 'scratch');
  for (const made of [home, scratch, join(folder, 'repositories')]) mkdirSync(made);
  host = { path: process.env['PATH'] ?? '/usr/bin:/bin', home, scratch };
  const repository = join(folder, 'repositories/app.git');
  git('init', '-q', '-b', 'main', repository);
  writeFileSync(join(repository, 'a.txt'), 'one\n');
  git('-C', repository, 'add', '.');
  git('-C', repository, '-c', 'user.name=a', '-c', 'user.email=a@b', 'commit', '-qm', 'first');
  head = git('-C', repository, 'rev-parse', 'HEAD').trim();
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function git(...args: string[]): string {
  return execFileSync('git', args, { encoding: 'utf8', env: { PATH: process.env['PATH'], HOME: '/nonexistent' } });
}

function serve(options: Partial<GitServerOptions> = {}): Promise<GitServer> {
  return serveGit({ root: join(folder, 'repositories'), login: LOGIN, ...options });
}

/** The user's configuration, which trusts the certificate. */
function configure(more: string, credentials: readonly string[] = []): void {
  writeFileSync(join(home, 'ca.pem'), LOCALHOST_CERTIFICATE);
  writeFileSync(join(home, '.gitconfig'), `[http]\n  sslCAInfo = ${join(home, 'ca.pem')}\n${more}`);
  writeFileSync(join(home, '.git-credentials'), credentials.map((line) => `${line}\n`).join(''), { mode: 0o600 });
}

const STORE = '[credential]\n  helper = store\n';

/** Returns the fetched commit, and the bundle as text. */
async function fetched(url: string): Promise<{ readonly commit: string; readonly text: string }> {
  const parts: Uint8Array[] = [];
  const { commit, bundle } = await fetchRepository(host, { url, ref: 'main' }, async (bytes) => {
    for await (const chunk of bytes) parts.push(chunk);
    return Buffer.concat(parts);
  });
  // The fetch leaves neither a folder nor a file in the scratch folder.
  expect(readdirSync(host.scratch!)).toEqual([]);
  return { commit, text: bundle.toString('latin1') };
}

async function refusal(url: string): Promise<string> {
  const startedMs = Date.now();
  const message = await fetched(url).then(
    () => 'it was fetched',
    (error: unknown) => String(error),
  );
  // A prompt for a login would wait for an answer until the timeout.
  expect(Date.now() - startedMs).toBeLessThan(20_000);
  expect(message).not.toContain(TOKEN);
  return message;
}

it('logs in as the user does, and packs nothing of the login', async () => {
  await using server = await serve();
  configure(STORE, [`https://${LOGIN}@localhost:${server.port}`]);
  const { commit, text } = await fetched(`${server.url}/app.git`);
  expect(commit).toBe(head);
  expect(server.logins).toContain(LOGIN);
  expect(text).toContain(head);
  expect(text).not.toContain(TOKEN);
  expect(text).not.toContain('localhost');
});

it('git without a login runs no program that asks for one, and the error names the missing login', async () => {
  await using server = await serve();
  const canary = join(folder, 'asked');
  configure(`[core]\n  askPass = "touch ${canary}; echo"\n`);
  const message = await refusal(`${server.url}/app.git`);
  expect(message).toMatch(/app\.git cannot be fetched: .*could not read Username/);
  expect(message).toMatch(/git of this host has no login for it.*git ls-remote https:\/\/localhost:\d+\/app\.git/);
  expect(readdirSync(folder)).not.toContain('asked');
  expect(new Set(server.logins)).toEqual(new Set([null]));
});

it('the error says that the server rejected the login, and does not contain the login', async () => {
  await using server = await serve({ login: 'ada:another' });
  configure(STORE, [`https://${LOGIN}@localhost:${server.port}`]);
  const message = await refusal(`${server.url}/app.git`);
  expect(message).toMatch(/cannot be fetched: .*Authentication failed/);
  expect(message).toMatch(/the login that git of this host has for it is refused/);
  expect(server.logins).toContain(LOGIN);
});

it('git does not send the login of one host to another host after a redirect', async () => {
  await using other = await serve();
  await using server = await serve({ redirectTo: `https://127.0.0.1:${other.port}` });
  configure(STORE, [`https://${LOGIN}@localhost:${server.port}`]);
  const message = await refusal(`${server.url}/app.git`);
  expect(server.logins).toContain(LOGIN);
  expect(other.logins.length).toBeGreaterThan(0);
  expect(new Set(other.logins)).toEqual(new Set([null]));
  expect(message).toMatch(/cannot be fetched/);
});

it('git sends no header of the configuration to another host after a redirect, and the error says what to write', async () => {
  await using other = await serve({ login: null });
  await using server = await serve({ redirectTo: `https://127.0.0.1:${other.port}` });
  const header = `Authorization: Basic ${Buffer.from(LOGIN).toString('base64')}`;
  // The header is configured for the URL that replaces `https://forge.invalid/`.
  configure(
    `[http "${server.url}/"]\n  extraHeader = ${header}\n[url "${server.url}/"]\n  insteadOf = https://forge.invalid/\n`,
  );
  const message = await refusal('https://forge.invalid/app.git');
  expect(message).toMatch(/cannot be fetched: fetch: /);
  expect(message).toMatch(/error: 302; the server leads elsewhere, where `http\.extraHeader`.*write the address/);
  expect(server.logins).toContain(LOGIN);
  expect(other.logins).toEqual([]);
});

it('git follows a redirect without sending headers of the configuration, and never follows one to http', async () => {
  await using other = await serve({ login: null });
  await using server = await serve({ login: null, redirectTo: `https://127.0.0.1:${other.port}` });
  configure(`[http "https://127.0.0.1:${other.port}/"]\n  extraHeader = X-Other: 1\n`);
  expect((await fetched(`${server.url}/app.git`)).commit).toBe(head);
  await using plain = await serve({ login: null, redirectTo: `http://127.0.0.1:${other.port}` });
  expect(await refusal(`${plain.url}/app.git`)).toMatch(/Protocol .?http\b.*disabled/);
});

it('the error says that `insteadOf` replaces the URL with one of another protocol', async () => {
  configure('[url "ssh://git@forge.invalid/"]\n  insteadOf = https://forge.invalid/\n');
  expect(await refusal('https://forge.invalid/app.git')).toMatch(/not allowed; `insteadOf` of git's configuration/);
});

it.each([
  ['the password', (port: number) => `https://ada:${TOKEN}@localhost:${port}/`],
  ['the user', (port: number) => `https://${TOKEN}@localhost:${port}/`],
])('the error does not contain a token that the configuration puts into a URL as %s', async (_as, addressOf) => {
  await using server = await serve({ login: 'ada:another' });
  configure(`[url "${addressOf(server.port)}"]\n  insteadOf = https://forge.invalid/\n`);
  const message = await refusal('https://forge.invalid/app.git');
  expect(message).toMatch(/^WorkspaceProblem: https:\/\/forge\.invalid\/app\.git cannot be fetched: /);
});
