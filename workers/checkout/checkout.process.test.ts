/** A repository as one tar, as git of a guest would have checked it out, and what is left to git of the guest. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { indexBase, type IndexedBase } from '../../git/base-bundle.ts';
import { writeCheckout } from './tar.ts';
import { packRepository } from '../../git/pack-repository.ts';
import { CHECKOUT_LIMITS, planCheckout } from './plan-checkout.ts';
import { withPrivateRepository } from '../../git/private-repository.ts';
import type { GitHost } from '../../git/run-git.ts';

let folder: string;
let repo: string;
let host: GitHost;
const IDENTITY = ['-c', 'user.name=a', '-c', 'user.email=a@b'];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'checkout-test-'));
  repo = join(folder, 'repo');
  host = { path: '/usr/local/bin:/usr/bin:/bin', home: null, scratch: join(folder, 'scratch') };
  mkdirSync(join(folder, 'scratch'));
  mkdirSync(repo);
  git(repo, ['init', '-q', '-b', 'main']);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function git(cwd: string, args: readonly string[], input: Buffer | string = ''): string {
  const env = { PATH: host.path, HOME: folder, GIT_CONFIG_NOSYSTEM: '1' };
  return execFileSync('git', [...IDENTITY, ...args], { cwd, env, input, stdio: 'pipe' }).toString('latin1');
}

function blob(text: string): string {
  return git(repo, ['hash-object', '-w', '--stdin'], text).trim();
}

/** Writes a git tree with exactly these entries, also entries that git would reject. */
function tree(...entries: readonly (readonly [string, string, string])[]): string {
  const bytes = entries.map(([mode, name, id]) =>
    Buffer.concat([Buffer.from(`${mode} ${name}\0`, 'latin1'), Buffer.from(id, 'hex')]),
  );
  return git(repo, ['hash-object', '-w', '-t', 'tree', '--literally', '--stdin'], Buffer.concat(bytes)).trim();
}

function commit(id: string): string {
  return git(repo, ['commit-tree', id, '-m', 'x']).trim();
}

async function bytesOf(bytes: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const chunk of bytes) parts.push(chunk);
  return Buffer.concat(parts);
}

async function* once(bytes: Buffer): AsyncGenerator<Uint8Array> {
  yield bytes;
}

async function indexed(): Promise<{
  readonly bundle: Buffer;
  readonly base: IndexedBase<Buffer> & { readonly checkout: Buffer };
}> {
  const { bundle } = await packRepository(
    host,
    { folder: repo, ref: null, includeDirty: false, mayRead: () => true },
    bytesOf,
  );
  const base = await withPrivateRepository(host, async (made) => {
    const indexed = await indexBase(host, made, once(bundle), bytesOf);
    const planned = await planCheckout(host, made, indexed.base);
    if ('unfit' in planned) throw new Error(planned.unfit);
    return { ...indexed, checkout: planned.index };
  });
  return { bundle, base };
}

async function tarOf(): Promise<AsyncGenerator<Uint8Array, void, void>> {
  const { bundle, base } = await indexed();
  const stored = (bytes: Buffer) => ({ sizeBytes: bytes.length, open: () => once(bytes) });
  return writeCheckout(host, {
    pack: stored(bundle.subarray(base.headerBytes)),
    packIndex: stored(base.index),
    index: base.checkout,
    gitFiles: {
      '.git/HEAD': 'ref: refs/heads/voidbox\n',
      '.git/config': '[core]\n\trepositoryformatversion = 0\n\tcheckStat = minimal\n',
      '.git/refs/heads/voidbox': `${base.base}\n`,
    },
    nowS: Math.floor(Date.now() / 1_000),
  });
}

function plan(id: string, limits = {}) {
  return withPrivateRepository(host, async (made) => {
    writeFileSync(join(made.gitDir, 'objects/info/alternates'), `${join(repo, '.git', 'objects')}\n`);
    return await planCheckout(host, made, id, { ...CHECKOUT_LIMITS, ...limits });
  });
}

describe('a checkout by the host', () => {
  it("equals git's checkout byte for byte, and git finds no change without reading a file", async () => {
    const deep = `${'d/'.repeat(60)}deep`;
    mkdirSync(join(repo, 'd/'.repeat(60)), { recursive: true });
    for (const [name, text] of [
      ['empty', ''],
      ['a b "c" \\ é\tx', 'odd'],
      [deep, 'deep'],
      ['n'.repeat(250), 'long'],
      ['crlf.txt', 'a\r\nb\n'],
      ['big', 'x'.repeat(1_500_000)],
      ['.gitattributes', '* text=auto eol=lf export-subst\nbig export-ignore\n*.bin binary\n'],
      ['subst', '$Format:%H$\n'],
    ] as const)
      writeFileSync(join(repo, name), text);
    writeFileSync(join(repo, 'run.sh'), '#!/bin/sh\n', { mode: 0o755 });
    writeFileSync(Buffer.concat([Buffer.from(`${repo}/bytes`), Buffer.from([0xff, 0xfe])]), 'bytes');
    execFileSync('ln', ['-s', '../run.sh', join(repo, 'd', 'link')]);
    git(repo, ['add', '.']);
    git(repo, ['commit', '-qm', 'first']);
    const [mine, theirs] = [join(folder, 'mine'), join(folder, 'theirs')];
    mkdirSync(mine);
    execFileSync('tar', ['-xf', '-', '-C', mine], { input: await bytesOf(await tarOf()) });
    git(folder, ['clone', '-q', repo, theirs]);
    execFileSync('diff', ['-r', '--no-dereference', '-x', '.git', mine, theirs]);
    expect(execFileSync('find', [mine, '-name', 'run.sh', '-perm', '755']).toString()).toContain('run.sh');
    expect(readlinkSync(join(mine, 'd', 'link'))).toBe('../run.sh');
    // A plumbing command does not refresh the index, so only times and sizes show that the file is unchanged.
    expect(git(mine, ['diff-files', '--name-only'])).toBe('');
    expect(git(mine, ['status', '--porcelain'])).toBe('');
    expect(git(mine, ['diff', '--stat'])).toBe('');
    git(mine, ['fsck', '--strict']);
    // The new text has the same size as the old one.
    writeFileSync(join(mine, 'subst'), '$Format:%T$\n');
    expect(git(mine, ['status', '--porcelain'])).toBe(' M subst\n');
    git(mine, ['commit', '-qam', 'more']);
    expect(git(mine, ['log', '--format=%s'])).toBe('more\nfirst\n');
    expect(readdirSync(host.scratch!)).toEqual([]);
  });

  it('leaves no folder if its reader stops', async () => {
    writeFileSync(join(repo, 'big'), 'x'.repeat(3_000_000));
    git(repo, ['add', '.']);
    git(repo, ['commit', '-qm', 'first']);
    let bytes = 0;
    for await (const chunk of await tarOf()) if ((bytes += chunk.length) > 500_000) break;
    expect(readdirSync(host.scratch!)).toEqual([]);
  });
});

describe('git of the guest checks out', () => {
  const FILE = '100644';
  const attributes = (text: string) => (): string => tree([FILE, '.gitattributes', blob(text)]);

  it.each<[string, () => string, RegExp]>([
    ['a file named .git', () => tree([FILE, '.git', blob('x')]), /\.git/],
    ['a hook', () => tree(['40000', '.git', tree([FILE, 'hooks', blob('x')])]), /\.git/],
    ['.GIT', () => tree(['40000', '.GIT', tree([FILE, 'config', blob('x')])]), /\.GIT/],
    ['git~1', () => tree(['40000', 'git~1', tree([FILE, 'config', blob('x')])]), /git~1/],
    ['.git with a point', () => tree(['40000', '.git.', tree([FILE, 'config', blob('x')])]), /\.git\./],
    ['.git after a backslash', () => tree([FILE, 'a\\.git', blob('x')]), /\.git/],
    ['a way out', () => tree(['40000', '..', tree([FILE, 'x', blob('x')])]), /\.\./],
    ['a name twice', () => tree([FILE, 'a', blob('x')], [FILE, 'a', blob('y')]), /./],
    [
      'a link and a file below it',
      () => tree(['120000', 'a', blob('b')], ['40000', 'a', tree([FILE, 'c', blob('x')])]),
      /./,
    ],
    ['a link as .gitmodules', () => tree(['120000', '.gitmodules', blob('a')]), /gitmodules/],
    ['a link that leads out', () => tree(['120000', 'a', blob('../a')]), /leads out/],
    ['a link from the root', () => tree(['120000', 'a', blob('/etc')]), /leads out/],
    ['a link with a line break', () => tree(['120000', 'a', blob('b\nc')]), /leads out/],
    ['a submodule', () => tree(['160000', 'a', 'a'.repeat(40)]), /submodule/],
    ['a name with a line break', () => tree([FILE, 'a\nb', blob('x')]), /not a name that a tar carries/],
    ['eol=crlf', attributes('* eol=crlf\n'), /may change files/],
    ['ident', attributes('* ident\n'), /may change files/],
    ['a filter', attributes('* filter=lfs\n'), /may change files/],
    ['an encoding', attributes('* working-tree-encoding=UTF-16\n'), /may change files/],
  ])('%s', async (_what, make, why) => {
    expect(await plan(commit(make()))).toEqual({ unfit: expect.stringMatching(why) });
  });

  it('paths too deep for a tar, and more than a limit', async () => {
    let deep = tree([FILE, 'x', blob('x')]);
    for (let depth = 0; depth < 128; depth += 1) deep = tree(['40000', 'd', deep]);
    expect(await plan(commit(deep))).toEqual({ unfit: expect.stringMatching(/not a name that a tar carries/) });
    const two = commit(tree([FILE, 'a', blob('12345')], ['120000', 'b', blob('a')]));
    expect(await plan(two)).toHaveProperty('index');
    const edge = { files: 2, bytes: 6, fileBytes: 5, judgedBytes: 1 };
    expect(await plan(two, edge)).toHaveProperty('index');
    for (const [name, limit] of Object.entries(edge))
      expect(await plan(two, { [name]: limit - 1 }), name).toEqual({ unfit: expect.stringMatching(/more than/) });
    expect(existsSync(join(folder, 'scratch'))).toBe(true);
  });
});
