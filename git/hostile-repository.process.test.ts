/** A repository whose author is hostile: links, pipes and settings in its git folder give nothing else of the host. */
import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { GIT_PATH } from '../test/rig/git/git-path.ts';
import { plantPrograms } from '../test/rig/git/hostile-repository.ts';
import { COPY_LIMITS, copyRepository } from './copy-repository.ts';
import { openRepository } from './open-repository.ts';
import { packRepository, type RepositoryRequest } from './pack-repository.ts';
import { type GitHost, readGitText } from './run-git.ts';

let folder: string;
let allowed: string;
let victim: string;
let host: GitHost;

/** Made once: each test copies it. */
let made: string;
beforeAll(() => {
  made = mkdtempSync(join(tmpdir(), 'hostile-repository-test-'));
  makeRepository(join(made, 'victim'), 'secret\n');
  makeRepository(join(made, 'tree'), 'public\n');
  git(made, 'clone', '-q', '--bare', 'tree', 'bare.git');
});
afterAll(() => rmSync(made, { recursive: true, force: true }));

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'hostile-repository-test-'));
  allowed = join(folder, 'allowed');
  for (const name of ['allowed', 'scratch']) mkdirSync(join(folder, name));
  host = { path: GIT_PATH, home: null, scratch: join(folder, 'scratch') };
  victim = join(folder, 'victim');
  cpSync(join(made, 'victim'), victim, { recursive: true });
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function git(cwd: string, ...args: readonly string[]): string {
  const identity = {
    GIT_AUTHOR_NAME: 'a',
    GIT_AUTHOR_EMAIL: 'a@b',
    GIT_COMMITTER_NAME: 'a',
    GIT_COMMITTER_EMAIL: 'a@b',
  };
  const env = { PATH: GIT_PATH, HOME: made, GIT_CONFIG_NOSYSTEM: '1', ...identity };
  return execFileSync('git', args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8' });
}

function makeRepository(path: string, text: string): string {
  mkdirSync(path);
  git(path, 'init', '-q', '-b', 'main');
  writeFileSync(join(path, 'a.txt'), text);
  git(path, 'add', '.');
  git(path, 'commit', '-qm', text.trim());
  return path;
}

async function collect(bytes: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const chunk of bytes) parts.push(chunk);
  return Buffer.concat(parts);
}

const mayRead = (path: string): boolean => path === allowed || path.startsWith(`${allowed}/`);

function pack(repo: string, more: Partial<RepositoryRequest> = {}) {
  return packRepository(host, { folder: repo, ref: null, includeDirty: false, mayRead, ...more }, collect);
}

/** A working tree, or a bare repository. */
function makeHostile(kind: 'tree' | 'bare'): { readonly repo: string; readonly gitDir: string } {
  const repo = join(allowed, kind === 'tree' ? 'tree' : 'bare.git');
  cpSync(join(made, kind === 'tree' ? 'tree' : 'bare.git'), repo, { recursive: true });
  return { repo, gitDir: kind === 'tree' ? join(repo, '.git') : repo };
}

function replaceByLink(gitDir: string, place: string, target: string): void {
  rmSync(join(gitDir, place), { recursive: true, force: true });
  mkdirSync(join(gitDir, place, '..'), { recursive: true });
  symlinkSync(target, join(gitDir, place));
}

const victimCommit = (): string => git(victim, 'rev-parse', 'HEAD').trim();

describe.each(['tree', 'bare'] as const)('a hostile repository (%s)', (kind) => {
  it.each([
    'HEAD',
    'ORIG_HEAD',
    'config',
    'commondir',
    'objects',
    'objects/pack',
    'objects/info',
    'objects/info/alternates',
    'packed-refs',
    'refs',
    'refs/heads',
    'refs/heads/main',
    'refs/heads/more/deep',
  ])('gives nothing of another repository by a link as %s, and the link has its place', async (place) => {
    git(victim, 'gc', '-q');
    git(victim, 'update-ref', 'ORIG_HEAD', 'HEAD');
    git(victim, 'update-ref', 'refs/heads/more/deep', 'HEAD');
    for (const name of ['HEAD', 'refs/heads/main']) writeFileSync(join(victim, '.git', name), `${victimCommit()}\n`);
    mkdirSync(join(victim, '.git/objects/info'), { recursive: true });
    writeFileSync(join(victim, '.git/objects/info/alternates'), `${join(victim, '.git/objects')}\n`);
    writeFileSync(join(victim, '.git/commondir'), `${join(victim, '.git')}\n`);
    const { repo, gitDir } = makeHostile(kind);
    replaceByLink(gitDir, place, join(victim, '.git', place));
    await expect(pack(repo)).rejects.toThrow(
      `the repository ${repo} keeps its data in ${join(victim, '.git', place)}, which runs may not read: ${join(gitDir, place)} leads there; allow that folder with --allow-mounts`,
    );
    expect(readdirSync(host.scratch!)).toEqual([]);
  });

  it('gives no object of another repository by a link as a folder of loose objects, or as a pack', async () => {
    const { repo, gitDir } = makeHostile(kind);
    const commit = victimCommit();
    writeFileSync(join(gitDir, 'HEAD'), `${commit}\n`);
    const loose = commit.slice(0, 2);
    replaceByLink(gitDir, `objects/${loose}`, join(victim, '.git/objects', loose));
    await expect(pack(repo)).rejects.toThrow(`${gitDir}/objects/${loose} leads there`);
    rmSync(join(gitDir, `objects/${loose}`));
    git(victim, 'gc', '-q');
    const name = readdirSync(join(victim, '.git/objects/pack')).find((each) => each.endsWith('.pack'))!;
    for (const each of [name, name.replace('.pack', '.idx')])
      replaceByLink(gitDir, `objects/pack/${each}`, join(victim, '.git/objects/pack', each));
    await expect(pack(repo)).rejects.toThrow(/objects\/pack\/pack-\S+ leads there/);
  });

  it.each(['HEAD', 'config', 'packed-refs', 'refs/heads/main', 'objects/info/alternates', 'objects'])(
    'blocks no reader by a named pipe as %s',
    async (place) => {
      const { repo, gitDir } = makeHostile(kind);
      rmSync(join(gitDir, place), { recursive: true, force: true });
      mkdirSync(join(gitDir, place, '..'), { recursive: true });
      execFileSync('mkfifo', [join(gitDir, place)]);
      await expect(pack(repo)).rejects.toThrow(
        place === 'objects' ? `${gitDir}/objects is not a folder` : `${gitDir}/${place} is a named pipe, not a file`,
      );
    },
  );

  it('is read by no git: no process of git gets its git folder', async () => {
    const { repo, gitDir } = makeHostile(kind);
    const canary = join(folder, 'canary');
    plantPrograms(gitDir, canary);
    if (kind === 'tree') {
      writeFileSync(join(repo, '.gitattributes'), '* filter=x diff=x merge=x\n');
      writeFileSync(join(repo, 'a.txt'), 'changed\n');
    }
    // The program runs if git reads this configuration.
    git(repo, 'rev-parse', 'HEAD');
    try {
      git(repo, kind === 'tree' ? 'status' : 'update-ref', ...(kind === 'tree' ? [] : ['refs/heads/proof', 'HEAD']));
    } catch {
      // A hook refused it.
    }
    expect(existsSync(canary)).toBe(true);
    rmSync(canary);
    const bin = join(folder, 'bin');
    const log = join(folder, 'log');
    mkdirSync(bin);
    writeFileSync(join(bin, 'git'), `#!/bin/sh\necho "$GIT_DIR" >> ${log}\nPATH=${GIT_PATH} exec git "$@"\n`, {
      mode: 0o755,
    });
    host = { ...host, path: `${bin}:${GIT_PATH}` };
    const packed = await pack(repo, { includeDirty: kind === 'tree' });
    expect(packed.base === packed.commit).toBe(kind === 'bare');
    expect(existsSync(canary)).toBe(false);
    const used = readFileSync(log, 'utf8').trim().split('\n');
    expect(used.length).toBeGreaterThan(4);
    for (const each of used) expect(each.startsWith(`${host.scratch}/`) || each.startsWith('/nonexistent/')).toBe(true);
  });
});

describe('a hostile working tree', () => {
  it.each(['index', 'info', 'info/exclude'])('gives nothing by a link as .git/%s', async (place) => {
    const { repo, gitDir } = makeHostile('tree');
    mkdirSync(join(victim, '.git/info'), { recursive: true });
    writeFileSync(join(victim, '.git/info/exclude'), 'x\n');
    replaceByLink(gitDir, place, join(victim, '.git', place));
    await expect(pack(repo, { includeDirty: true })).rejects.toThrow(`${gitDir}/${place} leads there`);
  });

  it.each(['index', 'info/exclude'])('blocks no reader by a named pipe as .git/%s', async (place) => {
    const { repo, gitDir } = makeHostile('tree');
    rmSync(join(gitDir, place), { force: true });
    mkdirSync(join(gitDir, 'info'), { recursive: true });
    execFileSync('mkfifo', [join(gitDir, place)]);
    await expect(pack(repo, { includeDirty: true })).rejects.toThrow(`${gitDir}/${place} is a named pipe, not a file`);
  });

  it('names a tracked file that is a pipe now, and takes no file from behind a link', async () => {
    const { repo } = makeHostile('tree');
    mkdirSync(join(repo, 'sub'));
    writeFileSync(join(repo, 'sub/a.txt'), 'public\n');
    git(repo, 'add', '.');
    git(repo, 'commit', '-qm', 'sub');
    rmSync(join(repo, 'sub'), { recursive: true });
    symlinkSync(victim, join(repo, 'sub'));
    const { bundle } = await pack(repo, { includeDirty: true });
    writeFileSync(join(folder, 'bundle'), bundle);
    git(victim, 'fetch', '-q', join(folder, 'bundle'), 'refs/voidbox/base');
    expect(git(victim, 'ls-tree', '-r', 'FETCH_HEAD')).toMatch(/^\S+ \S+ \S+\ta\.txt\n120000 \S+ \S+\tsub\n$/);
    rmSync(join(repo, 'a.txt'));
    execFileSync('mkfifo', [join(repo, 'a.txt')]);
    await expect(pack(repo, { includeDirty: true })).rejects.toThrow(`${repo}/a.txt is a pipe, a socket or a device`);
  });

  it('reads no file outside as `core.excludesFile`', async () => {
    const { repo } = makeHostile('tree');
    writeFileSync(join(folder, 'rules'), 'x\n');
    git(repo, 'config', 'core.excludesFile', join(folder, 'rules'));
    await expect(pack(repo, { includeDirty: true })).rejects.toThrow(`keeps its data in ${folder}/rules`);
    writeFileSync(join(repo, 'own'), 'ignored\nown\n');
    writeFileSync(join(repo, 'ignored'), 'x\n');
    git(repo, 'config', 'core.excludesFile', 'own');
    const packed = await pack(repo, { includeDirty: true });
    expect(packed.base).toBe(packed.commit);
  });

  it('names no other folder as its working tree, bare or not', async () => {
    const { repo } = makeHostile('tree');
    git(repo, 'config', 'core.worktree', victim);
    await expect(pack(repo, { includeDirty: true })).rejects.toThrow(
      `names another folder as its working tree: \`core.worktree\` is ${victim}`,
    );
    git(repo, 'config', 'core.worktree', '..');
    await expect(pack(repo)).resolves.toBeDefined();
    const bare = join(allowed, 'disguised.git');
    cpSync(join(repo, '.git'), bare, { recursive: true });
    git(bare, 'config', 'core.bare', 'false');
    git(bare, 'config', 'core.worktree', victim);
    await expect(pack(bare)).rejects.toThrow('`core.worktree`');
  });

  it('leads nowhere by a file or a link as `.git`', async () => {
    const { repo, gitDir } = makeHostile('tree');
    rmSync(gitDir, { recursive: true });
    writeFileSync(gitDir, `gitdir: ${join(victim, '.git')}\n`);
    await expect(pack(repo)).rejects.toThrow(`keeps its data in ${victim}/.git`);
    replaceByLink(repo, '.git', join(victim, '.git'));
    await expect(pack(repo)).rejects.toThrow(`keeps its data in ${victim}/.git`);
    rmSync(gitDir);
    execFileSync('mkfifo', [gitDir]);
    await expect(pack(repo)).rejects.toThrow(`${gitDir} is a named pipe, not a file`);
  });
});

describe('a repository with links that runs may follow', () => {
  it('is packed: a linked working tree, borrowed objects, links of folders and of HEAD', async () => {
    const { repo, gitDir } = makeHostile('tree');
    const commit = git(repo, 'rev-parse', 'HEAD').trim();
    const linked = join(allowed, 'linked');
    git(repo, 'worktree', 'add', '-q', linked);
    const borrowing = join(allowed, 'borrowing');
    git(allowed, 'clone', '-q', '--shared', repo, borrowing);
    renameSync(join(gitDir, 'objects'), join(allowed, 'objects'));
    symlinkSync(join(allowed, 'objects'), join(gitDir, 'objects'));
    rmSync(join(gitDir, 'HEAD'));
    symlinkSync('refs/heads/main', join(gitDir, 'HEAD'));
    git(repo, 'pack-refs', '--all');
    for (const each of [repo, linked, borrowing]) expect((await pack(each)).commit).toBe(commit);
    writeFileSync(join(linked, 'new'), 'x\n');
    const dirty = await pack(linked, { includeDirty: true });
    expect(dirty.base).not.toBe(commit);
  });

  it('is read as it was when it was opened, whatever is exchanged afterwards', async () => {
    const { repo, gitDir } = makeHostile('tree');
    const opened = await openRepository(host, repo, mayRead);
    renameSync(gitDir, join(allowed, 'moved'));
    symlinkSync(join(victim, '.git'), gitDir);
    const copy = await copyRepository(opened, join(folder, 'copy'), () => true);
    await opened.close();
    expect(await readGitText(host, ['log', '--format=%s', 'HEAD'], { env: { GIT_DIR: copy.gitDir } })).toBe('public\n');
  });

  it('is copied if the scratch folder lies on another file system', async () => {
    const { repo } = makeHostile('tree');
    // Temporary files lie in memory or on a disk.
    const isOnDisk = statSync('/dev/shm').dev !== statSync(repo).dev;
    const scratch = mkdtempSync(join(isOnDisk ? '/dev/shm' : '/var/tmp', 'voidbox-git-test-'));
    try {
      expect(statSync(scratch).dev).not.toBe(statSync(repo).dev);
      host = { ...host, scratch };
      writeFileSync(join(repo, 'new'), 'x\n');
      const packed = await pack(repo, { includeDirty: true });
      expect(packed.base).not.toBe(packed.commit);
    } finally {
      rmSync(scratch, { recursive: true, force: true });
    }
  });
});

describe('limits', () => {
  it('references: each of at most 4 KiB', async () => {
    const { repo, gitDir } = makeHostile('tree');
    writeFileSync(join(gitDir, 'refs/heads/large'), 'x'.repeat(COPY_LIMITS.referenceBytes + 1));
    await expect(pack(repo)).rejects.toThrow(`${gitDir}/refs/heads/large has more than 4096 bytes`);
  });

  it('folders within `refs`, also by a link that leads back', async () => {
    const { repo, gitDir } = makeHostile('tree');
    symlinkSync('..', join(gitDir, 'refs/heads/back'));
    await expect(pack(repo)).rejects.toThrow(/is deeper than 32 folders/);
  });

  it('folders that objects are borrowed from', async () => {
    const { repo, gitDir } = makeHostile('tree');
    for (let each = 0; each <= COPY_LIMITS.alternates; each += 1) {
      mkdirSync(join(allowed, `objects-${each}`));
      appendFileSync(join(gitDir, 'objects/info/alternates'), `${join(allowed, `objects-${each}`)}\n`);
    }
    await expect(pack(repo)).rejects.toThrow('borrows objects from more than 32 folders');
  });

  it('formats: names of objects other than SHA-1, and extensions that are not known', async () => {
    const { repo } = makeHostile('tree');
    git(repo, 'config', 'core.repositoryFormatVersion', '1');
    git(repo, 'config', 'extensions.future', 'true');
    await expect(pack(repo)).rejects.toThrow(/format that is not supported: extensions.future in .*\.git\/config/);
    git(allowed, 'init', '-q', '--object-format=sha256', 'other');
    await expect(pack(join(allowed, 'other'))).rejects.toThrow('names objects by sha256; only sha1 is supported');
  });
});

describe('a repository with damaged objects is the problem of its author', () => {
  const placeOf = (repo: string, id: string): string => join(repo, '.git/objects', id.slice(0, 2), id.slice(2));
  const idOf = (repo: string, name: string): string => git(repo, 'rev-parse', name).trim();

  it.each([
    ['a tree is missing', 'HEAD^{tree}', null],
    ['a file is missing', 'HEAD:a.txt', null],
    ['a tree is no object', 'HEAD^{tree}', 'damaged'],
    ['a file is no object', 'HEAD:a.txt', 'damaged'],
  ])('%s', async (_what, name, text) => {
    const repo = makeRepository(join(allowed, 'damaged'), 'text\n');
    const place = placeOf(repo, idOf(repo, name));
    rmSync(place);
    if (text !== null) writeFileSync(place, text);
    await expect(pack(repo)).rejects.toMatchObject({ name: 'WorkspaceProblem' });
  });

  it('the tree of a commit is a file', async () => {
    const repo = makeRepository(join(allowed, 'damaged'), 'text\n');
    const commit = `tree ${idOf(repo, 'HEAD:a.txt')}\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n\nx\n`;
    writeFileSync(join(folder, 'commit'), commit);
    const id = git(repo, 'hash-object', '-w', '-t', 'commit', '--literally', join(folder, 'commit')).trim();
    git(repo, 'update-ref', 'refs/heads/main', id);
    await expect(pack(repo)).rejects.toMatchObject({ name: 'WorkspaceProblem' });
  });
});

it('git without a repository finds none, and no program starts from a relative folder of PATH', async () => {
  const { repo } = makeHostile('tree');
  await expect(readGitText(host, ['rev-parse', '--git-dir'], { cwd: repo })).rejects.toThrow(/not a git repository/);
  writeFileSync(join(repo, 'git'), `#!/bin/sh\ntouch ${folder}/canary\n`, { mode: 0o755 });
  for (const path of ['.', '', `.:${GIT_PATH}`, `:${GIT_PATH}`])
    await readGitText({ ...host, path }, ['--version'], { cwd: repo }).catch(() => undefined);
  expect(existsSync(join(folder, 'canary'))).toBe(false);
});
