/** The service over TCP with TLS and tokens: a command line with another state folder uses it as a stranger would. */
import { execFileSync } from 'node:child_process';
import { Buffer } from 'node:buffer';
import { createWriteStream, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { expect, test } from 'vitest';
import { LOCALHOST_CERTIFICATE, LOCALHOST_KEY } from '../rig/servers/localhost-certificate.ts';
import { type TarItem, writeTar } from '../../tar/write.ts';
import { busyboxRoot } from '../rig/vms/oci-layout.ts';
import { filesWith } from '../rig/files-with.ts';
import type { CliResult, Rig } from './rig.ts';
import { until } from './rig.ts';
import { useRig } from './shared-rig.ts';

const theRig = useRig();

const SPEC = `api_version: v1
kind: workflow
name: through-tcp
sandbox:
  memory_mb: 256
  mounts: [{ host: data, guest: /data }]
workflow:
  output_step: work
  steps:
    - name: work
      workspace: { git: ./app, include_dirty: true }
      run: { program: sh, args: [-c, "cat /data/note plan && echo done > plan"] }
`;
const IMAGE_SPEC = `api_version: v1
kind: workflow
name: own-image
sandbox: { memory_mb: 256, image: ./image.tar }
workflow:
  steps:
    - name: work
      run: { program: cat, args: [/etc/from-client] }
`;
const SLOW_SPEC = `api_version: v1
kind: workflow
name: slow
sandbox: { memory_mb: 256 }
workflow:
  steps:
    - name: work
      run: echo begun; sleep 600
`;

/** Starts the stack with a listener, and returns the URL of the service. */
async function listen(rig: Rig): Promise<string> {
  const cert = join(rig.specDir, 'cert.pem');
  const key = join(rig.specDir, 'key.pem');
  writeFileSync(cert, LOCALHOST_CERTIFICATE);
  writeFileSync(key, LOCALHOST_KEY, { mode: 0o600 });
  const up = await rig.cli('up', '--listen', '127.0.0.1:0', '--tls-cert', cert, '--tls-key', key, '--json');
  expect(up.code, up.stderr).toBe(0);
  const { apiListeners } = JSON.parse(up.stdout) as { readonly apiListeners: readonly { readonly url: string }[] };
  return apiListeners[0]!.url;
}

async function createToken(rig: Rig, name: string, ...options: readonly string[]): Promise<string> {
  const created = await rig.cli('token', 'create', name, ...options);
  expect(created.code, created.stderr).toBe(0);
  return created.stdout.trim();
}

/** A command line with a state folder, a home and variables of its own. */
function elsewhere(rig: Rig, url: string, token: string): (...args: readonly string[]) => Promise<CliResult> {
  const variables = {
    VOIDBOX_STATE_DIR: join(rig.specDir, 'elsewhere'),
    VOIDBOX_SERVER: url,
    VOIDBOX_TOKEN: token,
    VOIDBOX_SERVER_CA: join(rig.specDir, 'cert.pem'),
  };
  return async (...args) => await rig.startWith(variables, ...args).done;
}

test('a token runs a spec with a mount, a repository and an image over TCP, takes its changes back, and may do no more than its scope', async () => {
  const rig = theRig();
  mkdirSync(join(rig.specDir, 'data'));
  writeFileSync(join(rig.specDir, 'data', 'note'), 'a note of the client\n');
  const app = join(rig.specDir, 'app');
  mkdirSync(app);
  const git = (...args: readonly string[]): string => {
    const identity = ['-c', 'user.name=a', '-c', 'user.email=a@b'];
    return execFileSync('git', [...identity, ...args], {
      cwd: app,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  };
  git('init', '-q', '-b', 'main');
  writeFileSync(join(app, 'plan'), 'committed\n');
  git('add', 'plan');
  git('commit', '-qm', 'first');
  writeFileSync(join(app, 'plan'), 'not committed\n');
  writeFileSync(join(app, 'key'), 'ignored');
  writeFileSync(join(app, '.git', 'info', 'exclude'), 'key\n');
  const file = rig.spec('through-tcp.yaml', SPEC);
  const url = await listen(rig);
  expect((await rig.cli('ps')).stdout).toContain(url);
  const token = await createToken(rig, 'ci', '--scope', 'run', '--runs', 'ci-*');
  const client = elsewhere(rig, url, token);

  // The run, and what the client reads of it.
  const done = await client('run', file, '--run-id', 'ci-1', '--json');
  expect(done.code, done.stderr).toBe(0);
  expect(JSON.parse(done.stdout)).toMatchObject({
    state: 'succeeded',
    outputText: 'a note of the client\nnot committed\n',
  });
  const applied = await client('apply', 'ci-1', '--repository', app, '--json');
  expect(JSON.parse(applied.stdout), applied.stderr).toMatchObject({ outcome: 'applied', files: [{ path: 'plan' }] });
  expect(readFileSync(join(app, 'plan'), 'utf8')).toBe('done\n');
  expect((await client('apply', 'ci-1', '--repository', app, '--branch')).code).toBe(0);
  expect(git('log', '--format=%s', 'voidbox/ci-1/work').trimEnd().split('\n').at(-1)).toBe('first');
  for (const args of [
    ['result', 'ci-1', '--json'],
    ['status', 'ci-1', '--json'],
    ['logs', 'ci-1', '--json'],
  ])
    expect(await client(...args), args.join(' ')).toEqual(await rig.cli(...args));

  // An image of the client.
  const mark: TarItem = { kind: 'file', path: 'etc/from-client', mode: 0o644, body: Buffer.from('an image\n') };
  const image = writeTar([...(await busyboxRoot(['sh', 'cat'])), mark]);
  await pipeline(image, createWriteStream(join(rig.specDir, 'image.tar')));
  const inImage = await client('run', rig.spec('image.yaml', IMAGE_SPEC), '--run-id', 'ci-2', '--json');
  expect(inImage.code, inImage.stderr).toBe(0);
  expect(JSON.parse(inImage.stdout)).toMatchObject({ state: 'succeeded', outputText: 'an image\n' });

  // The limits of the token.
  const other = await client('run', file, '--run-id', 'other', '--json');
  expect([other.code, other.stderr]).toEqual([2, expect.stringContaining('may not see the run `other`')]);
  expect((await client('token', 'create', 'more', '--scope', 'admin')).stderr).toContain('the request needs admin');
  expect((await client('cancel', 'ci-1', '--json')).code).toBe(0);
  const rows = JSON.parse((await rig.cli('audit', '--json')).stdout) as {
    readonly rows: readonly { readonly token: string; readonly route: string; readonly status: number }[];
  };
  expect(rows.rows.map(({ token, route, status }) => `${token} ${route} ${status}`)).toEqual(
    expect.arrayContaining(['ci /api/v1/runs 201', 'ci /api/v1/tokens 403']),
  );
  // No log, record and file of the database has the token.
  expect(filesWith(rig.stateDir, token.slice('voidbox_'.length))).toEqual([]);
});

test('a revoked token loses its open stream, and its run continues until the owner cancels it', async () => {
  const rig = theRig();
  const file = rig.spec('slow.yaml', SLOW_SPEC);
  const url = await listen(rig);
  const token = await createToken(rig, 'watcher', '--scope', 'run');
  const client = elsewhere(rig, url, token);
  expect((await client('run', file, '--run-id', 'slow-1', '--detach')).code).toBe(0);
  const following = client('logs', '-f', 'slow-1');
  let isOver = false;
  void following.then(() => (isOver = true));
  await until('the output of the stage', 120_000, async () =>
    (await rig.cli('logs', 'slow-1')).stdout.includes('begun'),
  );
  expect(isOver).toBe(false);
  expect((await rig.cli('token', 'revoke', 'watcher')).code).toBe(0);
  const ended = await following;
  expect(ended.stderr).toContain('the token watcher was revoked');
  expect([ended.code, (await client('runs')).code]).toEqual([3, 3]);
  expect((await rig.cli('status', 'slow-1', '--json')).stdout).toContain('"running"');
  expect((await rig.cli('cancel', 'slow-1')).code).toBe(0);
});
