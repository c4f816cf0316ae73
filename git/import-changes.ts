/**
 * Imports the changes of a stage from the workspace in its VM. The guest provides only a pack and the id of a commit:
 * no configuration, no hook, no reference. Both are hostile until a temporary repository has checked them.
 */
import { type Base, readBase, readBundle, readPack, RESULT_REF, BUNDLE_BYTES } from './base-bundle.ts';
import { listChangedFiles, type ChangedFile } from './changed-files.ts';
import { withPrivateRepository, type PrivateRepository } from './private-repository.ts';
import { GitError, type GitHost, readGitBytes, readGitText, streamGit } from './run-git.ts';

export interface ChangesRequest {
  /** The bundle that `packRepository` made. */
  readonly base: AsyncIterable<Uint8Array>;
  /**
   * The bundle that this function made for an earlier stage; empty if that stage changed nothing. Null if the stage
   * started from the base.
   */
  readonly earlier: AsyncIterable<Uint8Array> | null;
  readonly pack: AsyncIterable<Uint8Array>;
  readonly commit: string;
}

export interface Changes<T> {
  /** All changes since the base, with those that earlier stages made. */
  readonly patch: T;
  /** The commits since the base's own commit; empty if there is no such commit. */
  readonly bundle: T;
  readonly commit: string;
  readonly files: number;
  /** Whether this stage changed something: its commit differs from the commit that it started from. */
  readonly isNew: boolean;
}

export const CHANGES_LIMITS = {
  patchBytes: 256 * 1024 * 1024,
  commits: 10_000,
  objects: 250_000,
  /**
   * Files that a commit may have in addition to the files of the base: without this limit, a few objects could name
   * billions of files.
   */
  files: 500_000,
  objectBytes: 256 * 1024 * 1024,
  allBytes: 1024 * 1024 * 1024,
} as const;

export type ChangesLimits = { readonly [Limit in keyof typeof CHANGES_LIMITS]: number };

/** The guest caused this error; `message` may quote names that the guest chose. */
export class RefusedChanges extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'RefusedChanges';
  }
}

export async function importChanges<T>(
  host: GitHost,
  request: ChangesRequest,
  store: (bytes: AsyncIterable<Uint8Array>, mediaType: string) => Promise<T>,
  limits: ChangesLimits = CHANGES_LIMITS,
): Promise<Changes<T>> {
  const { commit, pack } = request;
  if (!/^[0-9a-f]{40}$/.test(commit)) throw new RefusedChanges('the guest names no commit');
  return await withPrivateRepository(host, async (repository) => {
    const base = await readBase(host, repository, request.base);
    const earlier = request.earlier === null ? null : await readEarlier(host, repository, request.earlier);
    const stored = await importPack(host, repository, { base, commit, pack }, store, limits);
    return { ...stored, isNew: commit !== (earlier ?? base.base) };
  });
}

/** Checks the pack and the commit, also if the repository already has these objects from another source. */
export async function importPack<T>(
  host: GitHost,
  repository: PrivateRepository,
  { base, commit, pack }: Pick<ChangesRequest, 'commit' | 'pack'> & { readonly base: Base },
  store: (bytes: AsyncIterable<Uint8Array>, mediaType: string) => Promise<T>,
  limits: ChangesLimits = CHANGES_LIMITS,
): Promise<Omit<Changes<T>, 'isNew'>> {
  await rejectGuestErrors(async () => {
    await readPack(host, repository, pack, 'content');
    await checkCommits(host, repository, base, commit, limits);
  });
  return await storeChanges(host, repository, base, commit, store);
}

async function readEarlier(
  host: GitHost,
  repository: PrivateRepository,
  bytes: AsyncIterable<Uint8Array>,
): Promise<string | null> {
  const iterator = bytes[Symbol.asyncIterator]();
  const first = await iterator.next();
  if (first.done === true) return null;
  const whole = async function* (): AsyncIterable<Uint8Array> {
    yield first.value;
    for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) yield next.value;
  };
  return (await readBundle(host, repository, whole(), 'content')).tips.get(RESULT_REF) ?? null;
}

/** Checks how much a few bytes unpack to, and that each named object exists. */
async function checkCommits(
  host: GitHost,
  repository: PrivateRepository,
  { commit: from, base }: Base,
  commit: string,
  limits: ChangesLimits,
): Promise<void> {
  const call = { env: { GIT_DIR: repository.gitDir }, confined: true };
  const type = (await readGitText(host, ['cat-file', '-t', commit], call)).trim();
  if (type !== 'commit') throw new RefusedChanges(`the guest names a ${type}, not a commit`);
  const commits = Number(await readGitText(host, ['rev-list', '--count', commit, '--not', from], call));
  if (commits > limits.commits)
    throw new RefusedChanges(`there are ${commits} new commits; at most ${limits.commits} are taken`);
  const mostBytes = limits.objects * 41;
  const names = await readGitBytes(host, ['rev-list', '--objects', '--no-object-names', commit, '--not', from], {
    ...call,
    mostBytes,
  });
  const sizes = await readGitText(host, ['cat-file', '--batch-check=%(objectsize)'], {
    ...call,
    stdin: names,
    mostBytes,
  });
  let all = 0;
  for (const line of sizes.split('\n')) {
    const bytes = Number(line);
    if (!Number.isSafeInteger(bytes)) throw new RefusedChanges('an object that is named is not there');
    if (bytes > limits.objectBytes)
      throw new RefusedChanges(`a file has ${bytes} bytes; at most ${limits.objectBytes} are taken`);
    all += bytes;
  }
  if (all > limits.allBytes)
    throw new RefusedChanges(`the changes have ${all} bytes; at most ${limits.allBytes} are taken`);
  const { files: most } = limits;
  if ((await countFiles(host, repository, commit, most)) <= most) return;
  const had = await countFiles(host, repository, base, Infinity);
  if ((await countFiles(host, repository, commit, had + most)) > had + most)
    throw new RefusedChanges(`there are more than ${most} new files; at most as many are taken`);
}

/**
 * Counts files in the tree of a commit, and in its folders. This command keeps no names in memory; a comparison would.
 */
async function countFiles(host: GitHost, { gitDir }: PrivateRepository, commit: string, most: number): Promise<number> {
  let files = 0;
  const args = ['ls-tree', '-r', '-z', '--name-only', '--full-tree', commit];
  for await (const chunk of streamGit(host, args, {
    env: { GIT_DIR: gitDir },
    confined: true,
    mostBytes: NAMES_BYTES,
  })) {
    for (const byte of chunk) if (byte === 0) files += 1;
    if (files > most) break;
  }
  return files;
}

/** The limit for the names of all files of a commit. */
const NAMES_BYTES = 512 * 1024 * 1024;

async function storeChanges<T>(
  host: GitHost,
  repository: PrivateRepository,
  base: Base,
  commit: string,
  store: (bytes: AsyncIterable<Uint8Array>, mediaType: string) => Promise<T>,
): Promise<Omit<Changes<T>, 'isNew'>> {
  return await rejectGuestErrors(async () => {
    const files = (await listChangedFiles(host, repository, base.base, commit)).length;
    const patch = await store(patchOf(host, repository, base.base, commit), 'text/x-patch');
    const bundle = await store(await bundleOf(host, repository, base.commit, commit), 'application/x-git-bundle');
    return { patch, bundle, commit, files };
  });
}

/** Returns a whole patch for `git apply`, binary files included. The guest's settings for diffs have no effect. */
export function patchOf(
  host: GitHost,
  { gitDir }: PrivateRepository,
  from: string,
  to: string,
): AsyncIterable<Uint8Array> {
  const shown = ['--binary', '--full-index', '--no-ext-diff', '--no-textconv', '--no-color', '-M'];
  return streamGit(host, ['diff-tree', '-p', '-r', ...shown, '--src-prefix=a/', '--dst-prefix=b/', from, to], {
    env: { GIT_DIR: gitDir },
    mostBytes: CHANGES_LIMITS.patchBytes,
    confined: true,
  });
}

async function bundleOf(
  host: GitHost,
  repository: PrivateRepository,
  from: string,
  to: string,
): Promise<AsyncIterable<Uint8Array>> {
  const env = { GIT_DIR: repository.gitDir };
  // Git makes no bundle without a commit.
  if ((await readGitText(host, ['rev-list', '--count', to, '--not', from], { env })).trim() === '0')
    return streamNothing();
  await repository.text(['update-ref', RESULT_REF, to]);
  return streamGit(host, ['bundle', 'create', '--quiet', '-', RESULT_REF, `^${from}`], {
    env,
    mostBytes: BUNDLE_BYTES,
    confined: true,
  });
}

async function* streamNothing(): AsyncIterable<Uint8Array> {}

/** An error of git about data of the guest is the guest's fault, unless git is missing. */
async function rejectGuestErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof GitError && error.reason !== 'missing' && error.reason !== 'disk-full')
      throw new RefusedChanges(`git refuses what the guest left: ${error.detail}`);
    throw error;
  }
}

export interface Opened {
  readonly base: Base;
  /** The last commit; the base if the stage made no commit. */
  readonly commit: string;
  readonly files: readonly ChangedFile[];
  readonly repository: PrivateRepository;
}

/** Checks the results of a stage once more before they are applied. */
export async function withChanges<T>(
  host: GitHost,
  bytes: { readonly base: AsyncIterable<Uint8Array>; readonly bundle: AsyncIterable<Uint8Array> },
  work: (opened: Opened) => Promise<T>,
): Promise<T> {
  return await withPrivateRepository(host, async (repository) => {
    const base = await readBase(host, repository, bytes.base);
    const commit = (await rejectGuestErrors(() => readEarlier(host, repository, bytes.bundle))) ?? base.base;
    await rejectGuestErrors(() => checkCommits(host, repository, base, commit, CHANGES_LIMITS));
    const files = await listChangedFiles(host, repository, base.base, commit);
    return await work({ base, commit, files, repository });
  });
}
