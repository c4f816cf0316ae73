/**
 * A repository of the host, for a stage. What is read of it are names of commits, objects and, where the author wants what is
 * not committed yet, files of the working tree. No command runs under the repository's own configuration where that could name a
 * program: objects and files are read through a temporary repository.
 */
import { copyFile, lstat, readFile, realpath, stat, utimes } from 'node:fs/promises';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { writeBase } from './base-bundle.ts';
import { namesIn } from './names.ts';
import { withPrivateRepository, type PrivateRepository } from './private-repository.ts';
import { GitError, type GitHost, gitBytes, gitText } from './run-git.ts';

export interface RepositoryRequest {
  /** The top folder of a working tree, or a bare repository. Absolute, without links. */
  readonly folder: string;
  /** Null: HEAD. */
  readonly ref: string | null;
  readonly includeDirty: boolean;
  /** Whether runs may read this folder of the host, which has no links in it. */
  readonly mayRead: (folder: string) => boolean;
  readonly signal?: AbortSignal;
}

export interface Packed<T> {
  readonly commit: string;
  readonly base: string;
  readonly bundle: T;
}

/** What the author can change; the message names it. */
export class WorkspaceProblem extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'WorkspaceProblem';
  }
}

export const DIRTY_LIMITS = { files: 50_000, bytes: 256 * 1024 * 1024 } as const;

/** Alternates of alternates, as git follows them. */
const ALTERNATE_DEPTH = 5;
const LIST_BYTES = 16 * 1024 * 1024;
const IGNORE_BYTES = 1024 * 1024;

export async function packRepository<T>(
  host: GitHost,
  request: RepositoryRequest,
  store: (bytes: AsyncIterable<Uint8Array>) => Promise<T>,
): Promise<Packed<T>> {
  const place = await findRepository(host, request);
  const commit = await resolveCommit(host, request);
  return await withPrivateRepository(host, place.objects, async (repository) => {
    const base = request.includeDirty ? await commitDirty(host, repository, request, place, commit) : commit;
    try {
      const bundle = await writeBase(host, repository, { commit, base }, store, request.signal);
      return { commit, base, bundle };
    } catch (error) {
      throw asProblem(error, request.folder);
    }
  });
}

function asProblem(error: unknown, folder: string): unknown {
  if (!(error instanceof GitError)) return error;
  if (error.reason === 'too-large')
    return new WorkspaceProblem(
      `the history of ${folder} is too large: ${error.detail}; name a smaller repository, or one with less history`,
    );
  if (error.reason === 'failed' && /missing|unable to read|could not read|bad object/i.test(error.detail))
    return new WorkspaceProblem(
      `the repository ${folder} lacks objects, as a partial clone does: ${error.detail}; fetch them, such as with \`git fetch --refetch\``,
    );
  return error;
}

interface Place {
  /** Of the working tree: index. */
  readonly gitDir: string;
  readonly commonDir: string;
  readonly objects: readonly string[];
  readonly isBare: boolean;
}

async function findRepository(host: GitHost, { folder, mayRead, signal }: RepositoryRequest): Promise<Place> {
  const flags = ['--absolute-git-dir', '--git-common-dir', '--is-bare-repository', '--is-shallow-repository'];
  const text = await gitText(host, ['rev-parse', ...flags, '--show-object-format'], inFolder(folder, signal)).catch(
    (error: unknown) => {
      throw error instanceof GitError && error.reason === 'failed'
        ? new WorkspaceProblem(`${folder} is no git repository, or not its top folder: ${error.detail}`)
        : error;
    },
  );
  const [gitDir = '', common = '', isBare, isShallow, format] = text.split('\n');
  if (isShallow === 'true')
    throw new WorkspaceProblem(
      `the repository ${folder} is a shallow clone, whose commits lack their parents; run \`git fetch --unshallow\` in it`,
    );
  if (format !== 'sha1')
    throw new WorkspaceProblem(`the repository ${folder} names objects by ${format}; only sha1 is supported`);
  const commonDir = resolve(folder, common);
  const objects = await objectFolders(join(commonDir, 'objects'), ALTERNATE_DEPTH);
  const read = [await realpath(gitDir), await realpath(commonDir), ...objects];
  const refused = read.find((path) => !mayRead(path));
  if (refused !== undefined)
    throw new WorkspaceProblem(
      `the repository ${folder} keeps its data in ${refused}, which runs may not read; allow that folder with --allow-mounts, or name a clone`,
    );
  return { gitDir, commonDir, objects, isBare: isBare === 'true' };
}

async function objectFolders(folder: string, depth: number): Promise<readonly string[]> {
  const found = await realpath(folder);
  const text = depth === 0 ? '' : await smallFile(join(found, 'info', 'alternates'));
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  const more = await Promise.all(
    lines.map((line) => objectFolders(isAbsolute(line) ? line : resolve(found, line), depth - 1)),
  );
  return [found, ...more.flat()];
}

async function smallFile(path: string): Promise<string> {
  const facts = await lstat(path).catch(() => null);
  return facts !== null && facts.isFile() && facts.size <= IGNORE_BYTES ? await readFile(path, 'utf8') : '';
}

async function resolveCommit(host: GitHost, { folder, ref, signal }: RepositoryRequest): Promise<string> {
  const name = ref ?? 'HEAD';
  try {
    const args = ['rev-parse', '--verify', '--quiet', '--end-of-options', `${name}^{commit}`];
    const commit = (await gitText(host, args, inFolder(folder, signal))).trim();
    if (/^[0-9a-f]{40}$/.test(commit)) return commit;
  } catch (error) {
    if (!(error instanceof GitError) || error.reason !== 'failed') throw error;
  }
  throw new WorkspaceProblem(
    ref === null
      ? `the repository ${folder} has no commit yet`
      : `the repository ${folder} has no commit ${JSON.stringify(name)}`,
  );
}

function inFolder(folder: string, signal: AbortSignal | undefined) {
  return {
    cwd: folder,
    env: { GIT_CEILING_DIRECTORIES: dirname(folder) },
    ...(signal === undefined ? {} : { signal }),
  };
}

/** The working tree as it is, without what is ignored, as a commit on top. The index and the objects of the repository stay as they are. */
async function commitDirty(
  host: GitHost,
  repository: PrivateRepository,
  { folder, signal }: RepositoryRequest,
  place: Place,
  commit: string,
): Promise<string> {
  if (place.isBare)
    throw new WorkspaceProblem(
      `the repository ${folder} is bare, so nothing in it can be uncommitted: remove \`include_dirty\``,
    );
  const index = join(repository.folder, 'index');
  const call = {
    cwd: folder,
    mostBytes: LIST_BYTES,
    env: { GIT_DIR: repository.gitDir, GIT_WORK_TREE: folder, GIT_INDEX_FILE: index },
    ...(signal === undefined ? {} : { signal }),
  };
  await copyIndex(join(place.gitDir, 'index'), index).catch(() => undefined);
  // An index in two parts, or none, or one of a newer git: then each file is compared.
  await gitText(host, ['ls-files', '--stage', '-z'], call).catch(() => gitText(host, ['read-tree', commit], call));
  await copyFile(join(place.commonDir, 'info', 'exclude'), join(repository.gitDir, 'info', 'exclude')).catch(
    () => undefined,
  );
  const ignore = ['-c', `core.excludesFile=${await ignoreFile(host, folder)}`];
  const others = await gitBytes(host, [...ignore, 'ls-files', '-z', '--others', '--exclude-standard'], call);
  // With its submodules it would run git in them, under their configuration.
  const changed = await gitBytes(host, ['diff-files', '-z', '--name-only', '--ignore-submodules=all'], call);
  const names = [...namesIn(changed), ...namesIn(others)].filter((name) => name.at(-1) !== SLASH);
  await boundDirty(folder, names);
  const stdin = Buffer.concat(names.flatMap((name) => [name, ZERO]));
  await gitText(host, ['update-index', '--add', '--remove', '--replace', '-z', '--stdin'], { ...call, stdin });
  const tree = await gitText(host, ['write-tree'], call).catch((error: unknown) => {
    throw error instanceof GitError && error.reason === 'failed'
      ? new WorkspaceProblem(
          `the working tree of ${folder} cannot be packed, as in the middle of a merge: ${error.detail}`,
        )
      : error;
  });
  if (tree.trim() === (await gitText(host, ['rev-parse', `${commit}^{tree}`], call)).trim()) return commit;
  const message = 'Changes that were not committed when the run began';
  return (await gitText(host, ['commit-tree', tree.trim(), '-p', commit, '-m', message], call)).trim();
}

/**
 * A file that changed within the second in which the index was written is told by the time of the index alone: a copy with a
 * later one would hide it.
 */
async function copyIndex(from: string, to: string): Promise<void> {
  const { mtimeMs } = await stat(from);
  await copyFile(from, to);
  const seconds = Math.floor(mtimeMs / 1_000);
  await utimes(to, seconds, seconds);
}

const SLASH = 0x2f;
const ZERO = Buffer.from([0]);

async function boundDirty(folder: string, names: readonly Buffer[]): Promise<void> {
  if (names.length > DIRTY_LIMITS.files)
    throw new WorkspaceProblem(
      `${names.length} files of ${folder} are not committed; at most ${DIRTY_LIMITS.files} may be: ignore what is built, or commit`,
    );
  let bytes = 0;
  for (const name of names) {
    const facts = await lstat(Buffer.concat([Buffer.from(`${folder}/`), name])).catch(() => null);
    bytes += facts?.isFile() === true ? facts.size : 0;
  }
  if (bytes > DIRTY_LIMITS.bytes)
    throw new WorkspaceProblem(
      `files of ${folder} that are not committed have ${bytes} bytes; at most ${DIRTY_LIMITS.bytes} are packed: ignore what is built, or commit`,
    );
}

/** The user's own rules hold as well: what they ignore everywhere, such as files with keys, stays on the host. */
async function ignoreFile(host: GitHost, folder: string): Promise<string> {
  const call = { ...inFolder(folder, undefined), withUserConfig: true };
  const named = await gitText(host, ['config', '--type=path', '--get', 'core.excludesFile'], call).catch(() => '');
  if (named.trim() !== '') return resolve(folder, named.trim());
  const configHome = host.configHome ?? (host.home === null ? null : join(host.home, '.config'));
  return configHome === null ? '/dev/null' : join(configHome, 'git', 'ignore');
}
