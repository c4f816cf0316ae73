/**
 * Commits files that a guest without git left. It provides only names, modes and contents. A temporary repository makes
 * a commit and a pack of them, as git of a guest would, and `importPack` then checks both as it checks a guest's.
 */
import { Buffer } from 'node:buffer';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { readBase } from './base-bundle.ts';
import { CHANGES_LIMITS, type Changes, importPack, RefusedChanges } from './import-changes.ts';
import { namesIn } from './names.ts';
import type { PrivateRepository } from './private-repository.ts';
import { withPrivateRepository } from './private-repository.ts';
import { GitError, type GitHost, readGitBytes, readGitText, streamGit } from './run-git.ts';

/** A file with a relative path without `.` and `..`. Names are bytes, one character for each. */
export type LeftFile =
  | {
      readonly path: string;
      readonly mode: '100644' | '100755' | '120000';
      readonly sizeBytes: number;
      /** The contents; the target of a link. */
      readonly body: AsyncIterable<Uint8Array>;
    }
  /** A second name of a file that was yielded before. */
  | { readonly path: string; readonly copyOf: string };

export interface FilesRequest {
  /** The bundle that `packRepository` made. */
  readonly base: AsyncIterable<Uint8Array>;
  /** All files of the folder; a file of the base that is not among them is deleted. */
  readonly files: AsyncIterable<LeftFile>;
  readonly message: string;
}

const LEFT_REF = 'refs/voidbox/left';
/** The limit for the names of all files. */
const NAMES_BYTES = 512 * 1024 * 1024;

/** @throws RefusedChanges */
export async function importFiles<T>(
  host: GitHost,
  { base: bundle, files, message }: FilesRequest,
  store: (bytes: AsyncIterable<Uint8Array>, mediaType: string) => Promise<T>,
): Promise<Changes<T>> {
  return await withPrivateRepository(host, async (repository) => {
    const base = await readBase(host, repository, bundle);
    const commit = await makeCommit(host, repository, { base: base.base, files, message });
    const pack = streamGit(host, ['pack-objects', '--revs', '--thin', '--stdout', '-q', '--delta-base-offset'], {
      env: { GIT_DIR: repository.gitDir },
      stdin: Buffer.from(`${commit}\n^${base.base}\n`),
      mostBytes: CHANGES_LIMITS.allBytes,
      confined: true,
    });
    const stored = await importPack(host, repository, { base, commit, pack }, store);
    return { ...stored, isNew: commit !== base.base };
  });
}

/** @returns the base if its files are the same */
async function makeCommit(
  host: GitHost,
  repository: PrivateRepository,
  { base, files, message }: { readonly base: string } & Omit<FilesRequest, 'base'>,
): Promise<string> {
  const source: Source = { ignoreFiles: [], error: null };
  const { ignoreFiles } = source;
  const call = { env: { GIT_DIR: repository.gitDir }, confined: true };
  try {
    const stdin = writeImport(base, watchSource(files, source));
    await readGitText(host, ['fast-import', '--quiet', '--done', '--date-format=now'], { ...call, stdin });
    const trees = await readGitText(host, ['rev-parse', `${LEFT_REF}^{tree}`, `${base}^{tree}`], call);
    const [left = '', before = ''] = trees.split('\n');
    const tree = ignoreFiles.length === 0 ? left : await leaveOutIgnored(host, repository, { base, left, ignoreFiles });
    if (tree === before) return base;
    return (await readGitText(host, ['commit-tree', tree, '-p', base, '-m', message], call)).trim();
  } catch (error) {
    // Git then only knows that its input ended early.
    if (source.error !== null) throw source.error;
    if (error instanceof GitError && error.reason !== 'missing' && error.reason !== 'disk-full')
      throw new RefusedChanges(`git refuses the files that the guest left: ${error.detail.replace(CRASH_REPORT, '')}`);
    throw error;
  }
}

/** It names a folder of this host, which is removed. */
const CRASH_REPORT = /;? ?(?:fast-import: )?dumping crash report to .*/;

interface Source {
  readonly ignoreFiles: string[];
  error: unknown;
}

async function* watchSource(files: AsyncIterable<LeftFile>, source: Source): AsyncGenerator<LeftFile> {
  try {
    for await (const file of files) {
      // Git reads no rules through a link.
      const isRules = /(?:^|\/)\.gitignore$/.test(file.path) && 'mode' in file && file.mode !== '120000';
      if (isRules) source.ignoreFiles.push(file.path);
      yield file;
    }
  } catch (error) {
    source.error = error;
    throw error;
  }
}

async function* writeImport(base: string, files: AsyncIterable<LeftFile>): AsyncGenerator<Uint8Array> {
  yield Buffer.from(`commit ${LEFT_REF}\ncommitter Voidbox <voidbox@localhost> now\ndata 0\nfrom ${base}\ndeleteall\n`);
  for await (const file of files) {
    if ('copyOf' in file) {
      yield Buffer.from(`C ${quotePath(file.copyOf)} ${quotePath(file.path)}\n`, 'latin1');
      continue;
    }
    yield Buffer.from(`M ${file.mode} inline ${quotePath(file.path)}\ndata ${file.sizeBytes}\n`, 'latin1');
    yield* file.body;
    yield Buffer.from('\n');
  }
  yield Buffer.from('done\n');
}

/** Quotes as C does, so that no name ends its line. */
function quotePath(path: string): string {
  return `"${path.replaceAll(/["\\]/g, '\\$&').replaceAll('\n', '\\n')}"`;
}

/**
 * Removes the files from a tree that its own rules ignore, as `git add` of a guest would have left them out. Files of
 * the base stay. The rules are in the index, and git reads no file of the guest.
 */
async function leaveOutIgnored(
  host: GitHost,
  { gitDir, folder }: PrivateRepository,
  {
    base,
    left,
    ignoreFiles,
  }: { readonly base: string; readonly left: string; readonly ignoreFiles: readonly string[] },
): Promise<string> {
  const empty = join(folder, 'no-files');
  await mkdir(empty);
  const env = { GIT_DIR: gitDir, GIT_WORK_TREE: empty, GIT_INDEX_FILE: join(folder, 'left-index') };
  const call = { cwd: empty, env, mostBytes: NAMES_BYTES, confined: true };
  await readGitText(host, ['read-tree', left], call);
  // Without this flag, git would read the rules from the folder instead of the index.
  const rules = Buffer.from(ignoreFiles.map((path) => `${path}\0`).join(''), 'latin1');
  await readGitText(host, ['update-index', '--skip-worktree', '-z', '--stdin'], { ...call, stdin: rules });
  const ignored = namesIn(
    await readGitBytes(host, ['ls-files', '-z', '--cached', '--ignored', '--exclude-standard'], call),
  );
  if (ignored.length === 0) return left;
  const list = await readGitBytes(host, ['ls-tree', '-r', '-z', '--name-only', '--full-tree', base], call);
  const kept = new Set(namesIn(list).map((name) => name.toString('latin1')));
  const gone = ignored.map((name) => name.toString('latin1')).filter((name) => !kept.has(name));
  const names = Buffer.from(gone.map((name) => `${name}\0`).join(''), 'latin1');
  await readGitText(host, ['update-index', '--force-remove', '-z', '--stdin'], { ...call, stdin: names });
  return (await readGitText(host, ['write-tree'], call)).trim();
}
