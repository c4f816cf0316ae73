/** Reaches each limit of workspaces, and fills a disk. */
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { BUNDLE_BYTES } from './base-bundle.ts';
import { CHANGES_LIMITS, type ChangesLimits, importChanges } from './import-changes.ts';
import { packRepository } from './pack-repository.ts';
import { STAGE_LIMITS } from './stage-files.ts';
import { GitError, type GitHost, readGitText } from './run-git.ts';

const MIB = 1024 * 1024;
const host: GitHost = { path: '/usr/local/bin:/usr/bin:/bin', home: null };

let folder: string;
let repo: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'git-limits-test-'));
  repo = join(folder, 'repo');
  mkdirSync(repo);
  git(['init', '-q', '-b', 'main']);
  git(['commit', '-qm', 'first', '--allow-empty']);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function git(args: readonly string[], input?: Buffer | string): Buffer {
  const identity = ['-c', 'user.name=a', '-c', 'user.email=a@b', '-c', 'core.compression=1'];
  return execFileSync('git', [...identity, ...args], {
    cwd: repo,
    env: { PATH: host.path, HOME: folder, GIT_CONFIG_NOSYSTEM: '1' },
    stdio: ['pipe', 'pipe', 'pipe'],
    maxBuffer: 1024 * MIB,
    ...(input === undefined ? {} : { input }),
  });
}

async function collect(bytes: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const chunk of bytes) parts.push(chunk);
  return Buffer.concat(parts);
}

async function* of(bytes: Buffer): AsyncIterable<Uint8Array> {
  yield bytes;
}

const pack = (includeDirty = false) =>
  packRepository(host, { folder: repo, ref: null, includeDirty, mayRead: () => true }, collect);

/** Imports the pack of a guest whose repository has this commit. */
async function take(
  base: { readonly bundle: Buffer; readonly commit: string },
  limits: Partial<ChangesLimits> = {},
): Promise<unknown> {
  const commit = git(['rev-parse', 'HEAD']).toString().trim();
  const packed = git(['pack-objects', '--revs', '--thin', '--stdout', '-q'], `${commit}\n^${base.commit}\n`);
  const request = { base: of(base.bundle), earlier: null, pack: of(packed), commit };
  return await importChanges(host, request, collect, { ...CHANGES_LIMITS, ...limits });
}

const stamp = 'committer a <a@b> 1700000000 +0000\ndata 1\nx\n';

describe('limits of what a guest made', () => {
  it('commits', { timeout: 120_000 }, async () => {
    const base = await pack();
    const history = (count: number): string =>
      `reset refs/heads/main\nfrom ${base.commit}\n\n${`commit refs/heads/main\n${stamp}\n`.repeat(count)}`;
    git(['fast-import', '--quiet', '--force'], history(CHANGES_LIMITS.commits));
    await expect(take(base)).resolves.toMatchObject({ files: 0 });
    git(['fast-import', '--quiet', '--force'], history(CHANGES_LIMITS.commits + 1));
    await expect(take(base)).rejects.toThrow('there are 10001 new commits; at most 10000 are taken');
  });

  it('objects', { timeout: 120_000 }, async () => {
    const base = await pack();
    const objects = 2_500;
    let stream = `commit refs/heads/main\n${stamp}from ${base.commit}\n`;
    for (let file = 0; file <= objects; file += 1) {
      const text = String(file);
      stream += `M 100644 inline d${file % 500}/${file}\ndata ${text.length}\n${text}\n`;
    }
    git(['fast-import', '--quiet', '--force'], stream);
    await expect(take(base)).resolves.toMatchObject({ files: objects + 1 });
    await expect(take(base, { objects })).rejects.toThrow(/rev-list gave more than 102500 bytes/);
  });

  it('files, which a few trees name again and again', { timeout: 120_000 }, async () => {
    const base = await pack();
    const write = (args: readonly string[], input: string): string => git(args, input).toString().trim();
    const blob = write(['hash-object', '-w', '--stdin'], 'x');
    /** Builds a tree of these counts, beginning with the innermost folder. */
    const treeOf = (counts: readonly number[]): string => {
      const entries = (mode: string, id: string, count: number): string =>
        Array.from({ length: count }, (_, at) => `${mode} ${id}\t${String(at).padStart(4, '0')}\n`).join('');
      const [innermost = 0, ...outer] = counts;
      const start = write(['mktree'], entries('100644 blob', blob, innermost));
      return outer.reduce((tree, count) => write(['mktree'], entries('040000 tree', tree, count)), start);
    };
    const come = (tree: string): void => {
      git(['reset', '-q', '--soft', write(['commit-tree', tree, '-p', base.commit, '-m', 'x'], '')]);
    };
    come(treeOf([1_000, 500]));
    await expect(take(base)).resolves.toMatchObject({ files: CHANGES_LIMITS.files });
    come(treeOf([1_001, 500]));
    await expect(take(base)).rejects.toThrow('there are more than 500000 new files; at most as many are taken');
    // A git that compares trees of ten billion files would need all of the memory.
    come(treeOf(Array<number>(10).fill(10)));
    const startedAt = performance.now();
    await expect(take(base)).rejects.toThrow('there are more than 500000 new files');
    expect(performance.now() - startedAt).toBeLessThan(20_000);
  });

  it('bytes of all objects together', { timeout: 120_000 }, async () => {
    const base = await pack();
    for (let file = 0; file < 5; file += 1) {
      writeFileSync(join(repo, `f${file}`), '');
      // A file of zeros takes only a few bytes of a pack.
      truncateSync(join(repo, `f${file}`), 21 * MIB + file);
    }
    git(['add', '.']);
    git(['commit', '-qm', 'large']);
    await expect(take(base)).resolves.toMatchObject({ files: 5 });
    await expect(take(base, { allBytes: 100 * MIB })).rejects.toThrow(
      /the changes have 1101\d{5} bytes; at most 104857600 are taken/,
    );
    await expect(take(base, { objectBytes: 20 * MIB })).rejects.toThrow(
      /a file has 2202\d{4} bytes; at most 20971520 are taken/,
    );
  });

  it('which the documentation names', () => {
    expect(CHANGES_LIMITS).toEqual({
      patchBytes: 256 * MIB,
      commits: 10_000,
      objects: 250_000,
      files: 500_000,
      objectBytes: 256 * MIB,
      allBytes: 1_024 * MIB,
    });
  });
});

describe('limits of what is packed', () => {
  it('files that are not committed, and their bytes', { timeout: 120_000 }, async () => {
    const large = join(repo, 'large');
    writeFileSync(large, '');
    truncateSync(large, STAGE_LIMITS.bytes + 1);
    await expect(pack(true)).rejects.toThrow(
      /have more than 268435456 bytes, which is the most that is read: ignore what is built/,
    );
    rmSync(large);
    for (let file = 0; file <= STAGE_LIMITS.files; file += 1) {
      if (file % 1_000 === 0) mkdirSync(join(repo, `d${file / 1_000}`));
      writeFileSync(join(repo, `d${Math.floor(file / 1_000)}`, `${file}`), '');
    }
    await expect(pack(true)).rejects.toThrow(/50001 files of .* that are not committed; at most 50000 may be/);
  });

  it('the history', { timeout: 120_000 }, async () => {
    const random = execFileSync('head', ['-c', String(BUNDLE_BYTES + MIB), '/dev/urandom'], { maxBuffer: 512 * MIB });
    writeFileSync(join(repo, 'random'), random);
    // Compression would take time and could not shrink random bytes.
    git(['-c', 'core.compression=0', 'add', '.']);
    git(['commit', '-qm', 'large']);
    await expect(pack()).rejects.toThrow(/the history of .* is too large: .*more than 268435456 bytes/);
  });
});

it.each([
  'fatal: write error: No space left on device',
  "fatal: sha1 file 'objects/pack/tmp_idx_a' write error. Out of diskspace",
])('a full disk of the host is no fault of the guest, and can be waited for: %s', async (said) => {
  const bin = join(folder, 'bin');
  mkdirSync(bin);
  writeFileSync(join(bin, 'git'), `#!/bin/sh\necho "${said}" >&2\nexit 128\n`);
  chmodSync(join(bin, 'git'), 0o755);
  const full: GitHost = { path: `${bin}:/usr/bin:/bin`, home: null };
  await expect(readGitText(full, ['index-pack'])).rejects.toMatchObject({ reason: 'disk-full', code: 'ENOSPC' });
  const base = await pack();
  const request = { base: of(base.bundle), earlier: null, pack: of(Buffer.from('x')), commit: base.commit };
  const refused: unknown = await importChanges(full, request, collect).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(GitError);
  expect(refused).toMatchObject({ code: 'ENOSPC' });
});
