/** Bundles of clients: what is made of a good one, and which ones are refused. */
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { GIT_PATH } from '../test/rig/git/git-path.ts';
import { type Packed, packRepository } from './pack-repository.ts';
import type { GitHost } from './run-git.ts';
import { unpackBundle } from './unpack-bundle.ts';

let dir: string;
let app: string;
let host: GitHost;

beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-unpack-bundle-')));
  app = join(dir, 'app');
  mkdirSync(join(dir, 'scratch'));
  mkdirSync(app);
  host = { path: GIT_PATH, home: null, scratch: join(dir, 'scratch') };
  git('init', '-q', '-b', 'main');
  commit('first');
  commit('second');
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function git(...args: readonly string[]): string {
  const identity = {
    GIT_AUTHOR_NAME: 'a',
    GIT_AUTHOR_EMAIL: 'a@b',
    GIT_COMMITTER_NAME: 'a',
    GIT_COMMITTER_EMAIL: 'a@b',
  };
  const env = { PATH: GIT_PATH, HOME: dir, GIT_CONFIG_NOSYSTEM: '1', ...identity };
  return execFileSync('git', args, { cwd: app, env, stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8' }).trim();
}

function commit(text: string): void {
  writeFileSync(join(app, 'file'), text);
  git('add', '.');
  git('commit', '-qm', text);
}

async function pack(folder: string, includeDirty = false): Promise<Packed<Buffer>> {
  const request = { folder, ref: null, includeDirty, mayRead: () => true };
  return await packRepository(host, request, async (bytes) => {
    const chunks: Uint8Array[] = [];
    for await (const chunk of bytes) chunks.push(chunk);
    return Buffer.concat(chunks);
  });
}

async function unpack(bundle: Uint8Array): Promise<string> {
  const folder = join(dir, 'repository');
  async function* bytes(): AsyncGenerator<Uint8Array> {
    yield bundle;
  }
  await unpackBundle(host, bytes(), folder);
  return folder;
}

/** Makes a bundle with these references, by the names of commits or objects. */
function bundleOf(refs: Readonly<Record<string, string>>, ...more: readonly string[]): Buffer {
  for (const [name, of] of Object.entries(refs)) git('update-ref', name, git('rev-parse', of));
  const file = join(dir, 'file.bundle');
  git('bundle', 'create', '-q', file, ...Object.keys(refs), ...more);
  return readFileSync(file);
}

test.each([
  ['a clean repository', false],
  ['uncommitted changes', true],
])('%s is packed again as the client packed it', async (_what, isDirty) => {
  if (isDirty) writeFileSync(join(app, 'file'), 'changed');
  const sent = await pack(app, true);
  const folder = await unpack(sent.bundle);
  const { commit: own, base } = await pack(folder, true);
  expect({ commit: own, base }).toEqual({ commit: sent.commit, base: sent.base });
  expect(base === own).toBe(!isDirty);
  expect((await pack(folder, false)).base).toBe(sent.commit);
  expect(readdirSync(host.scratch!)).toEqual([]);
});

const COMMIT = 'refs/voidbox/commit';
const BASE = 'refs/voidbox/base';

/** A bundle with only these objects, which its references need not reach. */
function bundleOfObjects(commit: string, ...objects: readonly string[]): Buffer {
  const id = git('rev-parse', commit);
  const stdin = [id, ...objects.map((name) => git('rev-parse', name))].join('\n');
  const pack = execFileSync('git', ['pack-objects', '--stdout', '-q'], { cwd: app, input: stdin, stdio: 'pipe' });
  return Buffer.concat([Buffer.from(`# v2 git bundle\n${id} ${COMMIT}\n${id} ${BASE}\n\n`), pack]);
}

/** Makes a first commit with this object as its tree. */
function writeCommit(tree: string): string {
  const text = `tree ${git('rev-parse', tree)}\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n\nx\n`;
  writeFileSync(join(dir, 'commit'), text);
  return git('hash-object', '-w', '-t', 'commit', '--literally', join(dir, 'commit'));
}

test.each([
  ['no bundle', () => Buffer.from('PACK'), 'it is no git bundle'],
  ['no base', () => bundleOf({ [COMMIT]: 'HEAD' }), 'does not have the references'],
  [
    'another reference',
    () => bundleOf({ [COMMIT]: 'HEAD', [BASE]: 'HEAD', 'refs/heads/x': 'HEAD' }),
    'does not have the references',
  ],
  ['a part of its history', () => bundleOf({ [COMMIT]: 'HEAD', [BASE]: 'HEAD' }, '^HEAD~1'), 'lacks the history'],
  ['a tree instead of a commit', () => bundleOf({ [COMMIT]: 'HEAD', [BASE]: 'HEAD^{tree}' }), 'is no commit'],
  ['a base before its commit', () => bundleOf({ [COMMIT]: 'HEAD', [BASE]: 'HEAD~1' }), 'is not the next commit'],
  ['a commit without its tree', () => bundleOfObjects(writeCommit('HEAD^{tree}')), 'did not receive expected object'],
  [
    'a tree without its file',
    () => bundleOfObjects(writeCommit('HEAD^{tree}'), 'HEAD^{tree}'),
    'did not receive expected object',
  ],
  ['a file as a tree', () => bundleOfObjects(writeCommit('HEAD:file'), 'HEAD:file'), 'invalid blob object'],
  ['a cut pack', () => bundleOf({ [COMMIT]: 'HEAD', [BASE]: 'HEAD' }).subarray(0, -30), 'git:'],
  [
    'a header without an end',
    () => Buffer.concat([Buffer.from('# v2 git bundle\n'), Buffer.alloc(64 * 1024, `${'a'.repeat(40)} refs/x\n`)]),
    'it is no git bundle',
  ],
])('a bundle with %s is refused, and leaves nothing', async (_what, make, message) => {
  await expect(unpack(make())).rejects.toMatchObject({
    name: 'RefusedBundle',
    message: expect.stringContaining(message) as string,
  });
  expect(existsSync(join(dir, 'repository'))).toBe(false);
  expect(readdirSync(host.scratch!)).toEqual([]);
});
