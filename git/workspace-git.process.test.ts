import { execFileSync, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { GIT_PATH } from '../test/rig/git/git-path.ts';
import { indexBase } from './base-bundle.ts';
import { fetchRepository } from './fetch-repository.ts';
import { type Changes, importChanges, withChanges } from './import-changes.ts';
import { packRepository, type RepositoryRequest } from './pack-repository.ts';
import { withPrivateRepository } from './private-repository.ts';
import type { GitHost } from './run-git.ts';

const host: GitHost = { path: GIT_PATH, home: null };
const IDENTITY = {
  GIT_AUTHOR_NAME: 'a',
  GIT_AUTHOR_EMAIL: 'a@b',
  GIT_COMMITTER_NAME: 'a',
  GIT_COMMITTER_EMAIL: 'a@b',
};

let folder: string;
let canary: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'workspace-git-test-'));
  canary = join(folder, 'canary');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function git(cwd: string, args: readonly string[], input?: Buffer | string): string {
  return execFileSync('git', args as string[], {
    cwd,
    env: { PATH: host.path, HOME: folder, GIT_CONFIG_NOSYSTEM: '1', ...IDENTITY },
    stdio: ['pipe', 'pipe', 'pipe'],
    maxBuffer: 256 * 1024 * 1024,
    ...(input === undefined ? {} : { input }),
  }).toString('latin1');
}

function makeRepository(name = 'repo'): string {
  const repo = join(folder, name);
  mkdirSync(repo);
  git(repo, ['init', '-q', '-b', 'main']);
  writeFileSync(join(repo, 'a.txt'), 'one\n');
  git(repo, ['add', '.']);
  git(repo, ['commit', '-qm', 'first']);
  return repo;
}

async function collect(bytes: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const chunk of bytes) parts.push(chunk);
  return Buffer.concat(parts);
}

async function* of(bytes: Buffer): AsyncIterable<Uint8Array> {
  if (bytes.length > 0) yield bytes;
}

function pack(repo: string, more: Partial<RepositoryRequest> = {}) {
  return packRepository(
    host,
    { folder: repo, ref: null, includeDirty: false, mayRead: (path) => path.startsWith(folder), ...more },
    collect,
  );
}

/** Returns when the commit of the uncommitted changes was made, in seconds, by its own date. */
function readSecond(repo: string, { base, bundle }: Awaited<ReturnType<typeof pack>>): number {
  const file = join(folder, 'dated');
  writeFileSync(file, bundle);
  git(repo, ['fetch', '-q', file, 'refs/voidbox/base']);
  return Number(git(repo, ['show', '-s', '--format=%ct', base]));
}

/** Packs a commit as the guest does. */
function guestPack(repo: string, commit: string, base: string): Buffer {
  return Buffer.from(
    git(repo, ['pack-objects', '--thin', '--revs', '--stdout', '-q'], `${commit}\n^${base}\n`),
    'latin1',
  );
}

function take(base: Buffer, packed: Buffer, commit: string, earlier: Buffer | null = null): Promise<Changes<Buffer>> {
  return importChanges(
    host,
    { base: of(base), earlier: earlier === null ? null : of(earlier), pack: of(packed), commit },
    collect,
  );
}

/** Configures programs in every way that git supports; each of them writes the canary. */
function withHostilePrograms(repo: string): void {
  const program = join(folder, 'program');
  writeFileSync(program, `#!/bin/sh\necho ran >> ${canary}\ncat\n`);
  chmodSync(program, 0o755);
  for (const key of ['core.fsmonitor', 'core.pager', 'core.editor', 'core.sshCommand', 'core.askPass', 'diff.external'])
    git(repo, ['config', key, program]);
  for (const key of [
    'filter.x.clean',
    'filter.x.smudge',
    'filter.x.process',
    'diff.x.textconv',
    'diff.x.command',
    'merge.x.driver',
  ])
    git(repo, ['config', key, program]);
  git(repo, ['config', 'filter.x.required', 'true']);
  git(repo, ['config', 'alias.rev-parse', `!${program}`]);
  git(repo, ['config', 'remote.origin.url', `ext::${program}`]);
  for (const hook of ['pre-commit', 'post-index-change', 'reference-transaction', 'post-checkout', 'pre-auto-gc'])
    writeFileSync(join(repo, '.git', 'hooks', hook), `#!/bin/sh\necho ran >> ${canary}\n`, { mode: 0o755 });
  writeFileSync(join(repo, '.gitattributes'), '* filter=x diff=x merge=x\n');
}

function tree(repo: string, entries: readonly (readonly [string, string, string])[]): string {
  const bytes = Buffer.concat(
    entries.map(([mode, name, id]) => Buffer.concat([Buffer.from(`${mode} ${name}\0`), Buffer.from(id, 'hex')])),
  );
  return git(repo, ['hash-object', '-w', '-t', 'tree', '--literally', '--stdin'], bytes).trim();
}

function commitOf(repo: string, id: string, parent: string): string {
  return git(repo, ['commit-tree', id, '-p', parent, '-m', 'hostile']).trim();
}

function blob(repo: string, text: string | Buffer): string {
  return git(repo, ['hash-object', '-w', '--stdin'], text).trim();
}

describe('packing a repository of the host', () => {
  it('takes a commit with its history, and leaves the repository as it is', async () => {
    const repo = makeRepository();
    const before = git(repo, ['status', '--porcelain']) + readFileSync(join(repo, '.git', 'index')).toString('hex');
    const packed = await pack(repo);
    expect(packed.commit).toBe(git(repo, ['rev-parse', 'HEAD']).trim());
    expect(packed.base).toBe(packed.commit);
    const file = join(folder, 'b');
    writeFileSync(file, packed.bundle);
    expect(git(repo, ['bundle', 'verify', file])).toContain('refs/voidbox/base');
    expect(git(repo, ['status', '--porcelain']) + readFileSync(join(repo, '.git', 'index')).toString('hex')).toBe(
      before,
    );
  });

  it('takes what is not committed, without what is ignored, and writes nothing into the repository', async () => {
    const repo = makeRepository();
    writeFileSync(join(repo, '.gitignore'), 'ignored\n');
    writeFileSync(join(repo, 'ignored'), 'secret');
    mkdirSync(join(repo, '.git', 'info'), { recursive: true });
    writeFileSync(join(repo, '.git', 'info', 'exclude'), 'mine\n');
    writeFileSync(join(repo, 'mine'), 'secret');
    writeFileSync(join(repo, 'a.txt'), 'two\n');
    writeFileSync(join(repo, 'new file'), 'new\n');
    const objects = git(repo, ['count-objects', '-v']);
    const index = readFileSync(join(repo, '.git', 'index')).toString('hex');
    const packed = await pack(repo, { includeDirty: true });
    expect(git(repo, ['count-objects', '-v'])).toBe(objects);
    expect(readFileSync(join(repo, '.git', 'index')).toString('hex')).toBe(index);
    const clone = join(folder, 'clone');
    const file = join(folder, 'b');
    writeFileSync(file, packed.bundle);
    git(folder, ['init', '-q', clone]);
    git(clone, ['fetch', '-q', file, 'refs/voidbox/base']);
    expect(git(clone, ['ls-tree', '-r', '--name-only', 'FETCH_HEAD'])).toBe('.gitignore\na.txt\nnew file\n');
    expect(git(clone, ['show', 'FETCH_HEAD:a.txt'])).toBe('two\n');
    expect(git(clone, ['rev-parse', 'FETCH_HEAD~1']).trim()).toBe(packed.commit);
  });

  it('packs equal uncommitted changes into equal bytes, whenever it does so', async () => {
    const repo = makeRepository();
    writeFileSync(join(repo, 'a.txt'), 'two\n');
    const first = await pack(repo, { includeDirty: true });
    // A later second would be another date of the commit.
    await expect
      .poll(() => Math.floor(Date.now() / 1_000), { timeout: 2_000 })
      .toBeGreaterThan(readSecond(repo, first));
    const second = await pack(repo, { includeDirty: true });
    expect([second.base, second.bundle.equals(first.bundle)]).toEqual([first.base, true]);
    writeFileSync(join(repo, 'a.txt'), 'three\n');
    expect((await pack(repo, { includeDirty: true })).base).not.toBe(first.base);
  });

  it('packs changes on top of a commit whose date git cannot write', async () => {
    const repo = makeRepository();
    const text = git(repo, ['cat-file', 'commit', 'HEAD']).replace(/> \d+ /g, '> 99999999999999999999 ');
    const odd = git(repo, ['hash-object', '-t', 'commit', '-w', '--literally', '--stdin'], text).trim();
    git(repo, ['update-ref', 'HEAD', odd]);
    writeFileSync(join(repo, 'a.txt'), 'two\n');
    expect((await pack(repo, { includeDirty: true })).commit).toBe(odd);
  });

  it('leaves on the host what the user ignores everywhere, wherever git has that from', async () => {
    const home = join(folder, 'home');
    const configHome = join(folder, 'config');
    const ignoring = async (of: GitHost): Promise<string> => {
      const repo = makeRepository(`ignoring-${randomUUID()}`);
      for (const name of ['by-home', 'by-config', 'by-setting', 'taken']) writeFileSync(join(repo, name), 'x');
      const request = { folder: repo, ref: null, includeDirty: true, mayRead: () => true };
      const { bundle } = await packRepository(of, request, collect);
      const file = join(folder, `bundle-${randomUUID()}`);
      writeFileSync(file, bundle);
      git(repo, ['fetch', '-q', file, 'refs/voidbox/base']);
      return git(repo, ['ls-tree', '-r', '--name-only', 'FETCH_HEAD']).split('\n').slice(1, -1).join(' ');
    };
    for (const place of [join(home, '.config/git'), join(configHome, 'git')]) mkdirSync(place, { recursive: true });
    writeFileSync(join(home, '.config/git/ignore'), 'by-home\n');
    writeFileSync(join(configHome, 'git/ignore'), 'by-config\n');
    expect(await ignoring({ ...host, home })).toBe('by-config by-setting taken');
    expect(await ignoring({ ...host, home, configHome })).toBe('by-home by-setting taken');
    writeFileSync(join(folder, 'rules'), 'by-setting\n');
    writeFileSync(join(configHome, 'git/config'), `[core]\n\texcludesFile = ${join(folder, 'rules')}\n`);
    expect(await ignoring({ ...host, home, configHome })).toBe('by-config by-home taken');
  });

  it('runs no program that the repository, or a submodule of it, names', async () => {
    const inner = makeRepository('inner');
    const repo = makeRepository();
    git(repo, ['-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', inner, 'sub']);
    git(repo, ['commit', '-qm', 'sub']);
    withHostilePrograms(repo);
    const program = join(folder, 'program');
    git(join(repo, 'sub'), ['config', 'core.fsmonitor', program]);
    writeFileSync(join(repo, 'a.txt'), 'two\n');
    writeFileSync(join(repo, 'sub', 'a.txt'), 'two\n');
    rmSync(canary, { force: true });
    // This shows that the programs would run: plain git starts the one for changes.
    spawnSync('git', ['status'], { cwd: repo, env: { PATH: host.path, HOME: folder } });
    expect(existsSync(canary)).toBe(true);
    rmSync(canary);
    const packed = await pack(repo, { includeDirty: true });
    expect(packed.base).not.toBe(packed.commit);
    expect(existsSync(canary)).toBe(false);
  });

  it.each([
    ['--upload-pack=touch', /no commit/],
    ['-h', /no commit/],
    ['HEAD:a.txt', /no commit/],
    ['nothing', /no commit "nothing"/],
  ])('refuses the ref %s', async (ref, problem) => {
    await expect(pack(makeRepository(), { ref })).rejects.toThrow(problem);
  });

  it('rejects a folder that is not a repository, a folder within one, a shallow clone, and a repository without a commit', async () => {
    const repo = makeRepository();
    writeFileSync(join(repo, 'a.txt'), 'two\n');
    git(repo, ['commit', '-qam', 'second']);
    mkdirSync(join(repo, 'inside'));
    await expect(pack(join(repo, 'inside'))).rejects.toThrow(/not its top folder/);
    const shallow = join(folder, 'shallow');
    git(folder, ['clone', '-q', '--depth=1', `file://${repo}`, shallow]);
    await expect(pack(shallow)).rejects.toThrow(/shallow clone.*--unshallow/);
    const empty = join(folder, 'empty');
    git(folder, ['init', '-q', empty]);
    await expect(pack(empty)).rejects.toThrow(/no commit yet/);
  });

  it('reads no folder that runs may not read: a gitdir or alternates that lead elsewhere', async () => {
    const repo = makeRepository();
    const linked = join(folder, 'allowed', 'linked');
    mkdirSync(join(folder, 'allowed'));
    git(repo, ['worktree', 'add', '-q', linked]);
    const mayRead = (path: string): boolean => path.startsWith(join(folder, 'allowed'));
    await expect(pack(linked, { mayRead })).rejects.toThrow(/keeps its data in .*--allow-mounts/);
    const borrowing = join(folder, 'allowed', 'borrowing');
    git(folder, ['clone', '-q', '--shared', repo, borrowing]);
    await expect(pack(borrowing, { mayRead })).rejects.toThrow(/keeps its data in/);
  });
});

describe('the index of a pack', () => {
  const indexOf = (bundle: Buffer) =>
    withPrivateRepository(host, (repository) => indexBase(host, repository, of(bundle), collect));

  it('lets git read the bundle without indexing it again', async () => {
    const repo = makeRepository();
    writeFileSync(join(repo, 'b.txt'), 'two\n');
    const { bundle, base, commit } = await pack(repo, { includeDirty: true });
    expect(base).not.toBe(commit);
    const indexed = await indexOf(bundle);
    expect(indexed.base).toBe(base);
    const there = join(folder, 'there');
    git(folder, ['init', '-q', '--bare', there]);
    writeFileSync(join(there, 'objects/pack/pack-base.pack'), bundle.subarray(indexed.headerBytes));
    writeFileSync(join(there, 'objects/pack/pack-base.idx'), indexed.index);
    expect(git(there, ['show', `${base}:b.txt`])).toBe('two\n');
    git(there, ['fsck', '--strict']);
  });

  it('is rejected for a pack that lacks objects, and for a bundle that is not a base', async () => {
    const repo = makeRepository();
    const first = git(repo, ['rev-parse', 'HEAD']).trim();
    writeFileSync(join(repo, 'a.txt'), `one\n${'more of it\n'.repeat(2_000)}`);
    git(repo, ['commit', '-qam', 'second']);
    writeFileSync(join(repo, 'a.txt'), `one\n${'more of it\n'.repeat(2_000)}end\n`);
    git(repo, ['commit', '-qam', 'third']);
    const second = git(repo, ['rev-parse', 'HEAD~1']).trim();
    const third = git(repo, ['rev-parse', 'HEAD']).trim();
    const header = `# v2 git bundle\n${third} refs/voidbox/commit\n${third} refs/voidbox/base\n\n`;
    const thin = Buffer.concat([Buffer.from(header), guestPack(repo, third, second)]);
    await expect(indexOf(thin)).rejects.toThrow(/unresolved delta/);
    const other = Buffer.from(`# v2 git bundle\n${first} refs/heads/main\n\n`);
    await expect(indexOf(other)).rejects.toThrow('it is no bundle that a workspace starts from');
    const { bundle } = await pack(repo);
    await expect(indexOf(bundle.subarray(0, bundle.length - 30))).rejects.toThrow(/early EOF|index-pack/);
  });
});

describe('fetching a repository', () => {
  it.each([
    'file:///etc',
    'ext::sh -c touch',
    '-uhttps://x',
    'http://example.invalid/x',
    'ssh://example.invalid/x',
    '/etc',
  ])('refuses %s before git sees it', async (url) => {
    await expect(fetchRepository(host, { url, ref: null }, collect)).rejects.toThrow(/does not begin with https/);
  });

  it('fetches one commit, and says what cannot be fetched', async () => {
    const repo = makeRepository();
    const url = `file://${repo}`;
    const fetched = await fetchRepository(host, { url, ref: 'main' }, collect, 'file');
    expect(fetched.commit).toBe(git(repo, ['rev-parse', 'HEAD']).trim());
    await expect(fetchRepository(host, { url, ref: 'none' }, collect, 'file')).rejects.toThrow(/cannot be fetched/);
  });
});

describe('what a guest made', () => {
  it('becomes a patch that applies, and a bundle with its commits; an earlier stage is in both', async () => {
    const repo = makeRepository();
    const { bundle: base, commit } = await pack(repo);
    writeFileSync(join(repo, 'binary'), Buffer.from([0, 1, 2, 255]));
    writeFileSync(join(repo, 'run.sh'), '#!/bin/sh\n', { mode: 0o755 });
    git(repo, ['add', '.']);
    git(repo, ['commit', '-qm', 'by the guest']);
    const first = git(repo, ['rev-parse', 'HEAD']).trim();
    const one = await take(base, guestPack(repo, first, commit), first);
    expect(one.files).toBe(2);
    git(repo, ['mv', 'a.txt', 'b.txt']);
    git(repo, ['commit', '-qm', 'renamed']);
    const second = git(repo, ['rev-parse', 'HEAD']).trim();
    const two = await take(base, guestPack(repo, second, first), second, one.bundle);
    const seen = await withChanges(
      host,
      { base: of(base), bundle: of(two.bundle) },
      async ({ files, commit: tip }) => ({
        files,
        tip,
      }),
    );
    expect(seen.tip).toBe(second);
    expect(seen.files).toEqual([
      { path: 'b.txt', from: 'a.txt', change: 'renamed', added: 0, removed: 0, notable: [] },
      { path: 'binary', from: null, change: 'added', added: null, removed: null, notable: [] },
      { path: 'run.sh', from: null, change: 'added', added: 1, removed: 0, notable: ['executable'] },
    ]);
    git(repo, ['checkout', '-q', commit]);
    git(repo, ['apply', '--index', '-'], two.patch);
    expect(git(repo, ['write-tree'])).toBe(git(repo, ['rev-parse', `${second}^{tree}`]));
  });

  it('may be nothing', async () => {
    const repo = makeRepository();
    const { bundle: base, commit } = await pack(repo);
    const none = await take(base, guestPack(repo, commit, commit), commit);
    expect([none.files, none.patch.length, none.bundle.length]).toEqual([0, 0, 0]);
    const seen = await withChanges(host, { base: of(base), bundle: of(none.bundle) }, async ({ commit: tip }) => tip);
    expect(seen).toBe(commit);
  });

  it.each([
    '.git',
    '.GIT',
    '.Git',
    'git~1',
    'GIT~1',
    '.git ',
    '.git\u200c',
    '..',
    '.',
    'a/b',
    '.git::$INDEX_ALLOCATION',
  ])('is refused with a file named %j', async (name) => {
    const repo = makeRepository();
    const { bundle: base, commit } = await pack(repo);
    const id = tree(repo, [['100644', name, blob(repo, 'x')]]);
    const hostile = commitOf(repo, id, commit);
    await expect(take(base, guestPack(repo, hostile, commit), hostile)).rejects.toThrow(
      /git refuses what the guest left/,
    );
  });

  it('is refused with a link and a file under it, an unsorted tree, a bad mode, and objects that are not there', async () => {
    const repo = makeRepository();
    const { bundle: base, commit } = await pack(repo);
    const one = blob(repo, '/etc');
    const inner = tree(repo, [['100644', 'passwd', blob(repo, 'x')]]);
    const cases = [
      tree(repo, [
        ['120000', 'a', one],
        ['40000', 'a', inner],
      ]),
      tree(repo, [
        ['100644', 'b', one],
        ['100644', 'a', one],
      ]),
      tree(repo, [['100666', 'a', one]]),
    ];
    for (const id of cases) {
      const hostile = commitOf(repo, id, commit);
      await expect(take(base, guestPack(repo, hostile, commit), hostile), id).rejects.toThrow(/git refuses/);
    }
    writeFileSync(join(repo, 'a.txt'), 'more\n');
    git(repo, ['commit', '-qam', 'more']);
    const whole = git(repo, ['rev-parse', 'HEAD']).trim();
    const alone = Buffer.from(git(repo, ['pack-objects', '--stdout', '-q'], `${whole}\n`), 'latin1');
    await expect(take(base, alone, whole)).rejects.toThrow(/git refuses/);
  });

  it('is rejected if its `.gitmodules` names an option or is a link', async () => {
    const repo = makeRepository();
    const { bundle: base, commit } = await pack(repo);
    const modules = blob(repo, '[submodule "x"]\n\tpath = x\n\turl = --upload-pack=touch\n');
    for (const entry of [
      ['100644', '.gitmodules', modules] as const,
      ['120000', '.gitmodules', blob(repo, 'a')] as const,
    ]) {
      const hostile = commitOf(repo, tree(repo, [entry]), commit);
      await expect(take(base, guestPack(repo, hostile, commit), hostile)).rejects.toThrow(/git refuses/);
    }
  });

  it('is rejected if it is not a pack, is cut off, has other bytes, or has no such commit', async () => {
    const repo = makeRepository();
    const { bundle: base, commit } = await pack(repo);
    writeFileSync(join(repo, 'a.txt'), 'two\n');
    git(repo, ['commit', '-qam', 'second']);
    const second = git(repo, ['rev-parse', 'HEAD']).trim();
    const good = guestPack(repo, second, commit);
    const damaged = Buffer.from(good);
    damaged[20] = damaged[20]! ^ 0xff;
    for (const bytes of [
      Buffer.alloc(0),
      Buffer.from('PACK'),
      good.subarray(0, -10),
      damaged,
      Buffer.alloc(100_000, 7),
    ])
      await expect(take(base, bytes, second)).rejects.toThrow(/git refuses/);
    for (const name of ['HEAD', '--all', `${second}^`, '', 'f'.repeat(40)])
      await expect(take(base, good, name)).rejects.toThrow(/names no commit|git refuses/);
    const file = blob(repo, 'two\n');
    await expect(take(base, good, file)).rejects.toThrow(/names a blob, not a commit/);
  });

  it('is refused with a file that unpacks to more than the limit', { timeout: 120_000 }, async () => {
    const repo = makeRepository();
    const { bundle: base, commit } = await pack(repo);
    const big = join(folder, 'big');
    execFileSync('truncate', ['-s', String(256 * 1024 * 1024 + 1), big]);
    const id = git(repo, ['hash-object', '-w', big]).trim();
    const hostile = commitOf(repo, tree(repo, [['100644', 'big', id]]), commit);
    await expect(take(base, guestPack(repo, hostile, commit), hostile)).rejects.toThrow(
      /a file has 268435457 bytes; at most/,
    );
  });

  it('cannot control how its diff is shown: its attributes start no program and hide no change', async () => {
    const repo = makeRepository();
    const { bundle: base, commit } = await pack(repo);
    writeFileSync(join(repo, '.gitattributes'), '* -diff filter=x diff=x\n');
    writeFileSync(join(repo, 'a.txt'), 'two\n');
    symlinkSync('/etc/passwd', join(repo, 'link'));
    mkdirSync(join(repo, '.github', 'workflows'), { recursive: true });
    writeFileSync(join(repo, '.github', 'workflows', 'x.yml'), 'on: push\n');
    git(repo, ['add', '.']);
    git(repo, ['commit', '-qm', 'x']);
    const tip = git(repo, ['rev-parse', 'HEAD']).trim();
    const { patch, bundle } = await take(base, guestPack(repo, tip, commit), tip);
    expect(patch.toString()).toContain('-one\n+two\n');
    const files = await withChanges(host, { base: of(base), bundle: of(bundle) }, async (opened) => opened.files);
    expect(files.map(({ path, notable }) => [path, notable])).toEqual([
      ['.gitattributes', ['attributes of git']],
      ['.github/workflows/x.yml', ['runs in CI']],
      ['a.txt', []],
      ['link', ['symbolic link']],
    ]);
  });

  it('is marked if it makes programs run: a link that leads elsewhere now, a repository within it, settings of agents', async () => {
    const repo = makeRepository();
    symlinkSync('a.txt', join(repo, 'link'));
    git(repo, ['add', '.']);
    git(repo, ['commit', '-qm', 'link']);
    const { bundle: base, commit } = await pack(repo);
    rmSync(join(repo, 'link'));
    symlinkSync('/etc/passwd', join(repo, 'link'));
    for (const name of ['lib/x/HEAD', '.claude/settings.json', '.mcp.json', 'docs/AGENTS.md', 'docs/HEADS']) {
      mkdirSync(join(repo, name, '..'), { recursive: true });
      writeFileSync(join(repo, name), name);
    }
    git(repo, ['add', '.']);
    git(repo, ['commit', '-qm', 'x']);
    const tip = git(repo, ['rev-parse', 'HEAD']).trim();
    const { bundle } = await take(base, guestPack(repo, tip, commit), tip);
    const files = await withChanges(host, { base: of(base), bundle: of(bundle) }, async (opened) => opened.files);
    expect(files.map(({ path, notable }) => [path, notable])).toEqual([
      ['.claude/settings.json', ['read by agents']],
      ['.mcp.json', ['read by agents']],
      ['docs/AGENTS.md', ['read by agents']],
      ['docs/HEADS', []],
      ['lib/x/HEAD', ['a repository within it']],
      ['link', ['symbolic link']],
    ]);
  });

  it('leaves no folder behind, whether it is taken or refused', async () => {
    const { bundle: base, commit } = await pack(makeRepository());
    const scratch = join(folder, 'scratch');
    mkdirSync(scratch);
    const request = { base: of(base), earlier: null, pack: of(Buffer.from('x')), commit };
    await expect(importChanges({ ...host, scratch }, request, collect)).rejects.toThrow(/git refuses/);
    expect(readdirSync(scratch)).toEqual([]);
  });
});
