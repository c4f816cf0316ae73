/**
 * A workspace from a server that asks for a login: git of the host has the login, and neither the guest nor stored data
 * contains it.
 */
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readEnvironment } from '../../setup/environment.ts';
import { resolveHostPieces } from '../../setup/resolve.ts';
import { filesWith } from '../rig/files-with.ts';
import { serveGit } from '../rig/git/git-server.ts';
import { LOCALHOST_CERTIFICATE } from '../rig/servers/localhost-certificate.ts';
import { Rig, temporal } from './rig.ts';

const TOKEN = `token${randomBytes(16).toString('hex')}`;
const LOGIN = `ada:${TOKEN}`;
/** The login as a request carries it. */
const BASIC = Buffer.from(LOGIN).toString('base64');
/** The repository contains it: a search that does not find it would find nothing. */
const CONTROL = `control${randomBytes(16).toString('hex')}`;

/** In halves, so that the plan does not contain the text that the test searches for. */
const halves = (text: string): string => `"${text.slice(0, 20)}""${text.slice(20)}"`;

const SEARCH = `set -e
test -z "$(git remote)"
git config --list --show-origin | grep -i -e url -e credential -e extraheader && exit 3
look() { cat /proc/[0-9]*/environ /proc/mounts 2>/dev/null | grep -q "$1" && echo "$2 in /proc"; grep -rlF "$1" /workspace /home /run /tmp /var/tmp /root /etc 2>/dev/null || true; }
echo "login: $(look ${halves(TOKEN)}) $(look ${halves(BASIC)})"
echo "control: $(look ${halves(CONTROL)})"
git log --format=%s
echo two >> a.txt
`;

const spec = (url: string): string => `api_version: v1
kind: workflow
name: fetched
workflow:
  steps:
    - name: search
      workspace: { git: "${url}", ref: main }
      run: { program: sh, args: [-c, ${JSON.stringify(SEARCH)}] }
`;

function git(...args: string[]): void {
  execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { stdio: 'ignore' });
}

test('its login is in no file or process of the guest, and in no history, log, event, artifact or message', async () => {
  await using rig = new Rig();
  const home = join(rig.specDir, 'home');
  const root = join(rig.specDir, 'repositories');
  for (const folder of [home, root]) mkdirSync(folder);
  git('init', '-q', '-b', 'main', join(root, 'app.git'));
  writeFileSync(join(root, 'app.git/a.txt'), `${CONTROL}\n`);
  git('-C', join(root, 'app.git'), 'add', '.');
  git('-C', join(root, 'app.git'), 'commit', '-qm', 'first');
  await using server = await serveGit({ root, login: LOGIN });
  await using other = await serveGit({ root, login: 'ada:another' });
  writeFileSync(join(home, 'ca.pem'), LOCALHOST_CERTIFICATE);
  writeFileSync(join(home, '.git-credentials'), `https://${LOGIN}@localhost:${server.port}\n`, { mode: 0o600 });
  // The second rule is a common way to give a token for all addresses of a host: as the name of a user, without a
  // password.
  const config = `[http]\n  sslCAInfo = ${join(home, 'ca.pem')}\n[credential]\n  helper = store\n[url "https://${TOKEN}@localhost:${other.port}/"]\n  insteadOf = https://forge.invalid/\n`;
  writeFileSync(join(home, '.gitconfig'), config);
  Object.assign(rig.env, { HOME: home, VOIDBOX_CACHE_DIR: readEnvironment().cacheDir });

  const said: string[] = [];
  const cli = async (...args: string[]): Promise<number | null> => {
    const { code, stdout, stderr } = await rig.cli(...args);
    said.push(stdout, stderr);
    return code;
  };
  const allow = ['--allow-git', `localhost:${server.port}/app`, '--allow-git', 'forge.invalid/app'];
  const run = (url: string, id: string) => cli('run', rig.spec(`${id}.yaml`, spec(url)), '--run-id', id, ...allow);

  // The login is the user's, so the user decides. If `run` cannot ask, it refuses before the run starts.
  expect(await cli('run', rig.spec('asks.yaml', spec(`${server.url}/app.git`)), '--run-id', 'asks')).toBe(3);
  expect(said.at(-1)).toContain(`--allow-git localhost:${server.port}/app`);
  expect([server.logins, existsSync(join(rig.stateDir, 'runs/asks'))]).toEqual([[], false]);

  expect(await run(`${server.url}/app.git`, 'works'), said.at(-1)).toBe(0);
  expect(server.logins).toContain(LOGIN);
  expect(await rig.output('works', 'search')).toBe('login:  \ncontrol: /workspace/repository/a.txt\nfirst\n');
  expect(await cli('artifacts', 'works', 'get', 'search.changes.patch')).toBe(0);

  expect(await run('https://forge.invalid/app.git', 'refused')).toBe(1);
  const { failure } = (await rig.finish('refused', 10_000)).outcome;
  expect(failure).toMatchObject({ code: 'workspace/unusable' });
  expect(failure?.message).toMatch(
    /forge\.invalid\/app\.git cannot be fetched: .*git of this host has no login for it/,
  );
  expect(other.logins).not.toContain(LOGIN);

  for (const id of ['works', 'refused'])
    for (const args of [
      ['logs', id, '--json'],
      ['status', id, '--json'],
      ['inspect', join(rig.specDir, `${id}.yaml`)],
    ])
      expect(await cli(...args), args.join(' ')).toBe(0);
  const { temporalCli } = await resolveHostPieces(readEnvironment(), { install: false });
  for (const id of ['works', 'refused']) {
    const history = await temporal(temporalCli, rig, 'workflow', 'show', '--workflow-id', id, '--output', 'json');
    said.push(
      history,
      ...[...history.matchAll(/"([A-Za-z0-9+/=]{8,})"/g)].map(([, payload]) =>
        Buffer.from(payload!, 'base64').toString(),
      ),
    );
  }
  const texts = said.join('\n');
  expect(texts).toContain(`${server.url}/app.git`);
  expect([texts.includes(TOKEN), texts.includes(BASIC)]).toEqual([false, false]);

  // A spec that contains the login is refused before anything is stored of it.
  expect(await run(`https://${LOGIN}@localhost:${server.port}/app.git`, 'written')).toBe(2);
  expect(said.at(-1)).toContain('has a user or a password in it');
  expect(existsSync(join(rig.stateDir, 'runs/written'))).toBe(false);

  await rig.assertNothingLeft();
  expect(filesWith(rig.stateDir, `${server.url}/app.git`)).not.toEqual([]);
  expect([...filesWith(rig.stateDir, TOKEN), ...filesWith(rig.stateDir, BASIC)]).toEqual([]);
});
