/** The start of a workspace: one commit with its history, and one more commit for uncommitted changes. */
import { createReadStream } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { HEADER_BYTES, readBundleHeader } from './bundle-header.ts';
import { limitBytes, withStart } from './bytes.ts';
import { streamGit, type GitHost } from './run-git.ts';
import type { PrivateRepository } from './private-repository.ts';

/** The commit that the repository has. */
const COMMIT_REF = 'refs/voidbox/commit';
/** The commit from which the stage starts: the same commit, or one more commit with the uncommitted changes. */
const BASE_REF = 'refs/voidbox/base';
/** The references of a bundle that a client sends. */
export const SENT_REFS = { commit: COMMIT_REF, base: BASE_REF } as const;
/** The commit that a stage made from the base. */
export const RESULT_REF = 'refs/heads/voidbox';

export const BUNDLE_BYTES = 256 * 1024 * 1024;

export interface Base {
  readonly commit: string;
  readonly base: string;
}

export interface Bundle {
  readonly needs: readonly string[];
  readonly tips: ReadonlyMap<string, string>;
}

export async function writeBase<T>(
  host: GitHost,
  repository: PrivateRepository,
  { commit, base }: Base,
  store: (bytes: AsyncIterable<Uint8Array>) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  await repository.text(['update-ref', COMMIT_REF, commit]);
  await repository.text(['update-ref', BASE_REF, base]);
  return await store(
    streamGit(host, ['bundle', 'create', '--quiet', '-', COMMIT_REF, BASE_REF], {
      env: { GIT_DIR: repository.gitDir },
      mostBytes: BUNDLE_BYTES,
      ...(signal === undefined ? {} : { signal }),
    }),
  );
}

export async function readBase(
  host: GitHost,
  repository: PrivateRepository,
  bytes: AsyncIterable<Uint8Array>,
): Promise<Base> {
  // The user's own history: old commits of many projects do not pass the strict check.
  const { tips } = await readBundle(host, repository, bytes, 'hashes');
  const commit = tips.get(COMMIT_REF);
  const base = tips.get(BASE_REF);
  if (commit === undefined || base === undefined) throw new Error('it is no bundle that a workspace starts from');
  return { commit, base };
}

export interface IndexedBase<T> {
  /** The commit that stages start from. */
  readonly base: string;
  /** The length of the bundle's header; the pack follows it. */
  readonly headerBytes: number;
  readonly index: T;
}

/**
 * Writes the index of the bundle's pack, which every git can read. The bundle must have its whole history: git rejects
 * a pack that lacks an object.
 */
export async function indexBase<T>(
  host: GitHost,
  { gitDir }: PrivateRepository,
  bytes: AsyncIterable<Uint8Array>,
  store: (bytes: AsyncIterable<Uint8Array>) => Promise<T>,
): Promise<IndexedBase<T>> {
  const { start, rest } = await withStart(limitBytes(bytes, BUNDLE_BYTES, 'the bundle'), HEADER_BYTES);
  const header = readBundleHeader(start);
  const base = header.refs.find(({ name }) => name === BASE_REF)?.commit;
  if (base === undefined) throw new Error('it is no bundle that a workspace starts from');
  const args = ['index-pack', '--stdin', `--max-input-size=${BUNDLE_BYTES}`];
  const stdin = rest(header.bytes);
  for await (const _ of streamGit(host, args, { env: { GIT_DIR: gitDir }, stdin, confined: true }));
  const folder = join(gitDir, 'objects', 'pack');
  const name = (await readdir(folder)).find((each) => each.endsWith('.idx'));
  if (name === undefined) throw new Error('git made no index of the pack');
  return { base, headerBytes: header.bytes, index: await store(createReadStream(join(folder, name))) };
}

/**
 * A check of the objects in a pack. `hashes`: each has its hash. `links`: each object that they name exists, too, and has
 * the right type. `content`: git also finds no fault in their content.
 */
export type PackCheck = 'hashes' | 'links' | 'content';

const CHECK_OPTIONS: Readonly<Record<PackCheck, readonly string[]>> = {
  hashes: [],
  links: ['--check-self-contained-and-connected'],
  // Git only warns of a mode that it never writes itself.
  content: ['--strict=badFilemode=error'],
};

/**
 * Puts the objects of the bundle into the repository. Its references are only returned.
 * @throws Error if the check is `links` and the bundle needs commits that it does not have
 */
export async function readBundle(
  host: GitHost,
  repository: PrivateRepository,
  bytes: AsyncIterable<Uint8Array>,
  check: PackCheck,
): Promise<Bundle> {
  const { start, rest } = await withStart(limitBytes(bytes, BUNDLE_BYTES, 'the bundle'), HEADER_BYTES);
  const header = readBundleHeader(start);
  if (check === 'links' && header.needs.length > 0) throw new Error('it lacks the history of its commits');
  await readPack(host, repository, rest(header.bytes), check);
  return { needs: header.needs, tips: new Map(header.refs.map(({ name, commit }) => [name, commit])) };
}

export async function readPack(
  host: GitHost,
  repository: PrivateRepository,
  bytes: AsyncIterable<Uint8Array>,
  check: PackCheck,
): Promise<void> {
  const args = ['index-pack', '--stdin', '--fix-thin', ...CHECK_OPTIONS[check], `--max-input-size=${BUNDLE_BYTES}`];
  for await (const _ of streamGit(host, args, {
    env: { GIT_DIR: repository.gitDir },
    stdin: bytes,
    confined: true,
  }));
}
