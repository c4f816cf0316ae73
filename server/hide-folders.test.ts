import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createToken } from '../app/access/tokens.ts';
import { readEnvironment } from '../setup/environment.ts';
import { openUploads } from '../store/open-uploads.ts';
import { createMemoryAccess } from '../test/rig/access/memory-access.ts';
import { openAsOwner } from '../test/rig/access/owner.ts';
import { createAdmitted } from '../test/rig/runs/asked-machine.ts';
import { MemoryPlace, openMemoryStores } from '../test/rig/runs/memory-stores.ts';
import { createTestMachine } from '../test/rig/runs/test-machine.ts';
import { createApi } from './api.ts';
import { hideFolders, hideStateFolder } from './hide-folders.ts';
import { API_LIMITS } from './limits.ts';
import { createProblem, type Problem } from './problems.ts';
import { ProblemSchema } from './schemas.ts';

const FOLDERS = {
  stateDir: '/home/ann/state',
  cacheDir: '/var/cache/voidbox',
  secretsKeyFile: '/home/ann/state/own/keys',
  home: '/home/ann',
};
const UPLOADS = '/home/ann/state/runs/r%2F1/uploads/0123456789abcdef';

function hide(detail: string, change: Partial<Problem> = {}): Problem {
  return hideFolders({ ...createProblem('admit/mount-refused' as never, detail, 403), ...change }, FOLDERS);
}

test.each([
  [`scope a mounts ${UPLOADS}/data/a, which is too large`, 'scope a mounts data/a, which is too large'],
  [`stage a works in ${UPLOADS}`, 'stage a works in the uploads'],
  [`${UPLOADS}0/x`, '<state folder>/runs/r%2F1/uploads/0123456789abcdef0/x'],
  ['the disk of /home/ann/state is full', 'the disk of <state folder> is full'],
  ['/var/cache/voidbox/images/a is damaged', '<cache folder>/images/a is damaged'],
  ['/home/ann/.ssh is refused', '<home>/.ssh is refused'],
  ['the file /home/ann/state/own/keys has the mode 644', 'the file <file of keys> has the mode 644'],
  ['/srv/data is not in an upload', '/srv/data is not in an upload'],
])('a message for a token is cleared of the folders: %s', (text, shown) => {
  expect(hide(text).detail).toBe(shown);
});

test('remedies and diagnostics are cleared too', () => {
  const at = { code: 'spec/unknown-key', severity: 'error', line: 1, column: 1 } as const;
  const problem = hide('', {
    remedy: `Look at ${UPLOADS}/data`,
    diagnostics: [{ ...at, message: `${UPLOADS}/a`, remedy: `${UPLOADS}/b`, file: `${UPLOADS}/c` }],
  });
  expect(problem.remedy).toBe('Look at data');
  expect(problem.diagnostics).toEqual([{ ...at, message: 'a', remedy: 'b', file: 'c' }]);
});

test('a record for a token has no path of the state folder, neither in its values nor in its keys', () => {
  const record = {
    plan: { scopes: [{ sandbox: { mounts: [{ source: { kind: 'host', path: `${UPLOADS}/data` } }] } }], n: 1 },
    mounts: { [`${UPLOADS}/data`]: `${UPLOADS}/data`, '/home/ann/x': '/home/ann/x' },
    left: [null, true, '/home/ann/state'],
  };
  expect(hideStateFolder(record, FOLDERS.stateDir)).toEqual({
    plan: { scopes: [{ sandbox: { mounts: [{ source: { kind: 'host', path: 'data' } }] } }], n: 1 },
    mounts: { data: 'data', '/home/ann/x': '/home/ann/x' },
    left: [null, true, '<state folder>'],
  });
});

test('the folder `/` as a home changes no path', () => {
  const problem = createProblem('api/no-run', 'a/b');
  expect(hideFolders(problem, { ...FOLDERS, home: '/' }).detail).toBe('a/b');
});

test('a token reads no folder of the owner in the answer to its start', async () => {
  const stateDir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-hide-')));
  try {
    const access = createMemoryAccess();
    const { text } = await createToken(
      { name: 'ci', scopes: ['run'], runs: [], groups: [], allowGit: [], lifeMs: null },
      { tokens: access.tokens, nowMs: Date.now() },
    );
    const env = readEnvironment({ VOIDBOX_STATE_DIR: stateDir, VOIDBOX_CACHE_DIR: join(stateDir, 'cache') });
    const api = createApi({
      machine: createTestMachine(openMemoryStores(new MemoryPlace()), { env }),
      uploads: openUploads({ stateDir }),
      access: () => Promise.resolve(access),
      version: '1.2.3',
      limits: API_LIMITS,
      log: () => undefined,
    });
    const spec =
      'kind: workflow\nname: a\nsandbox: { mode: mock, isolation: none, mounts: [{ host: data, guest: /data, mode: rw }] }\nworkflow: { steps: [{ name: a, run: ls }] }\n';
    const response = await api.request(
      '/api/v1/runs',
      {
        method: 'POST',
        headers: { authorization: `Bearer ${text}`, 'content-type': 'application/json' },
        body: JSON.stringify({ spec }),
      },
      { connection: { listener: 'tcp', address: '192.0.2.7', end: () => undefined, isFromProxy: false } },
    );
    const { code, detail } = ProblemSchema.parse(await response.json());
    expect(code).toBe('admit/mount-refused');
    expect(detail).toBe('scope _shared mounts data with `mode: rw`, and a run of a token mounts only `ro`');
  } finally {
    rmSync(stateDir, { recursive: true, force: true });
  }
});

test('a token reads a record without the state folder, and the owner as it is', async () => {
  const env = readEnvironment({ VOIDBOX_STATE_DIR: '/nowhere/state', VOIDBOX_CACHE_DIR: '/nowhere/cache' });
  const stores = openMemoryStores(new MemoryPlace());
  await stores.events.append('made', [createAdmitted()]);
  const path = `/nowhere/state/runs/made/uploads/0123456789abcdef/spec.yaml`;
  await stores.records.put('made', 'source', { path, text: `see ${path}`, params: {}, mode: null });
  const access = createMemoryAccess();
  const { text } = await createToken(
    { name: 'ci', scopes: ['read'], runs: [], groups: [], allowGit: [], lifeMs: null },
    { tokens: access.tokens, nowMs: Date.now() },
  );
  const api = createApi({
    machine: createTestMachine(stores, { env }),
    uploads: openUploads(env),
    access: () => Promise.resolve(access),
    version: '1.2.3',
    limits: API_LIMITS,
    log: () => undefined,
  });
  const target = '/api/v1/runs/made/records/source';
  const ofOwner = await openAsOwner(api).request(target);
  expect(await ofOwner.json()).toMatchObject({ value: { path } });
  const ofToken = await api.request(
    target,
    { headers: { authorization: `Bearer ${text}` } },
    { connection: { listener: 'tcp', address: '192.0.2.7', end: () => undefined, isFromProxy: false } },
  );
  expect(await ofToken.json()).toEqual({ value: { path: 'spec.yaml', text: 'see spec.yaml', params: {}, mode: null } });
});
