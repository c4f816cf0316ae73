/**
 * Packs a repository of the host for a stage. It reads names of commits, objects and, if the author includes
 * uncommitted changes, files of the working tree. Git works with a private copy, so it opens no file of the author's
 * git folder.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { SENT_REFS, writeBase } from './base-bundle.ts';
import { commitDirty } from './commit-dirty.ts';
import { copyRepository } from './copy-repository.ts';
import { type ReadPermission, RefusedPlace } from './held-folder.ts';
import { type OpenRepository, openRepository } from './open-repository.ts';
import { withPrivateRepository, type PrivateRepository } from './private-repository.ts';
import { GitError, type GitHost, readGitText } from './run-git.ts';
import { WorkspaceProblem } from './workspace-problem.ts';

export interface RepositoryRequest {
  /** The top folder of a working tree, or a bare repository: an absolute path without links. */
  readonly folder: string;
  /** Null means HEAD. */
  readonly ref: string | null;
  readonly includeDirty: boolean;
  /** Reports whether runs may read this path of the host, which has no links in it. */
  readonly mayRead: ReadPermission;
  readonly signal?: AbortSignal;
}

export interface Packed<T> {
  readonly commit: string;
  readonly base: string;
  readonly bundle: T;
}

export async function packRepository<T>(
  host: GitHost,
  request: RepositoryRequest,
  store: (bytes: AsyncIterable<Uint8Array>) => Promise<T>,
): Promise<Packed<T>> {
  const { folder, mayRead, signal } = request;
  const call = signal === undefined ? host : { ...host, signal };
  try {
    const author = await openRepository(call, folder, mayRead);
    try {
      return await withPrivateRepository(call, (repository) => packInto(call, repository, author, request, store));
    } finally {
      await author.close();
    }
  } catch (error) {
    throw toProblem(error, folder);
  }
}

async function packInto<T>(
  host: GitHost,
  repository: PrivateRepository,
  author: OpenRepository,
  { folder, ref, includeDirty, mayRead, signal }: RepositoryRequest,
  store: (bytes: AsyncIterable<Uint8Array>) => Promise<T>,
): Promise<Packed<T>> {
  refuseShallow(author, folder);
  const copy = await copyRepository(author, join(repository.folder, 'author'), mayRead);
  await writeFile(join(repository.gitDir, 'objects', 'info', 'alternates'), `${copy.objects}\n`);
  const commit = await resolveCommit(host, folder, copy.gitDir, ref);
  // A client that sent the repository has committed its changes already.
  const sent = includeDirty && author.isBare ? await findCommit(host, copy.gitDir, SENT_REFS.base) : null;
  const base = !includeDirty ? commit : (sent ?? (await commitDirty(host, repository, author, commit)));
  const bundle = await writeBase(host, repository, { commit, base }, store, signal);
  return { commit, base, bundle };
}

/**
 * Returns why `packRepository` would refuse a repository; null if it would not, as far as its format shows. It reads no
 * references and no objects.
 * @throws GitError if git is missing
 */
export async function findRepositoryProblem(
  host: GitHost,
  { folder, mayRead }: Pick<RepositoryRequest, 'folder' | 'mayRead'>,
): Promise<string | null> {
  try {
    const author = await openRepository(host, folder, mayRead);
    try {
      refuseShallow(author, folder);
    } finally {
      await author.close();
    }
    return null;
  } catch (error) {
    const problem = toProblem(error, folder);
    if (problem instanceof WorkspaceProblem) return problem.message;
    throw problem;
  }
}

function refuseShallow({ isShallow }: OpenRepository, folder: string): void {
  if (isShallow)
    throw new WorkspaceProblem(
      `the repository ${folder} is a shallow clone, whose commits lack their parents; run \`git fetch --unshallow\` in it`,
    );
}

/** Texts of git about objects that do not have the content which their names promise. */
const DAMAGE = /bad tree|not a (?:tree|commit|blob)|corrupt|inflate|bogus|unable to (?:parse|unpack)/i;

function toProblem(error: unknown, folder: string): unknown {
  if (error instanceof RefusedPlace)
    return new WorkspaceProblem(
      error.target === null
        ? `the repository ${folder} cannot be packed: ${error.message}`
        : `the repository ${folder} keeps its data in ${error.target}, which runs may not read: ${error.place} leads there; allow that folder with --allow-mounts, or name a clone`,
    );
  if (!(error instanceof GitError)) return error;
  if (error.reason === 'too-large')
    return new WorkspaceProblem(
      `the history of ${folder} is too large: ${error.detail}; name a smaller repository, or one with less history`,
    );
  if (error.reason === 'failed' && /missing|unable to read|could not read|bad object/i.test(error.detail))
    return new WorkspaceProblem(
      `the repository ${folder} lacks objects, as a partial clone does: ${error.detail}; fetch them, such as with \`git fetch --refetch\``,
    );
  if (error.reason === 'failed' && DAMAGE.test(error.detail))
    return new WorkspaceProblem(
      `the repository ${folder} has damaged objects: ${error.detail}; \`git fsck\` lists them, and a new clone does not have them`,
    );
  return error;
}

async function resolveCommit(host: GitHost, folder: string, gitDir: string, ref: string | null): Promise<string> {
  const name = ref ?? 'HEAD';
  const commit = await findCommit(host, gitDir, name);
  if (commit !== null) return commit;
  throw new WorkspaceProblem(
    ref === null
      ? `the repository ${folder} has no commit yet`
      : `the repository ${folder} has no commit ${JSON.stringify(name)}`,
  );
}

async function findCommit(host: GitHost, gitDir: string, name: string): Promise<string | null> {
  try {
    const args = ['rev-parse', '--verify', '--quiet', '--end-of-options', `${name}^{commit}`];
    const commit = (await readGitText(host, args, { env: { GIT_DIR: gitDir } })).trim();
    return /^[0-9a-f]{40}$/.test(commit) ? commit : null;
  } catch (error) {
    if (!(error instanceof GitError) || error.reason !== 'failed') throw error;
    return null;
  }
}
