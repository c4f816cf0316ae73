/**
 * The working tree of an author as a commit on top, without what is ignored. Git of the host lists what differs; Voidbox opens
 * the files, through no link and no pipe, and git reads their copies.
 */
import { Buffer } from 'node:buffer';
import { mkdir, symlink, utimes, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { HeldFolder } from './held-folder.ts';
import { HeldTree } from './held-tree.ts';
import { namesIn } from './names.ts';
import { type OpenRepository, SMALL_FILE_BYTES } from './open-repository.ts';
import type { PrivateRepository } from './private-repository.ts';
import { GitError, type GitHost, gitBytes, gitText } from './run-git.ts';
import { WorkspaceProblem } from './workspace-problem.ts';

export const DIRTY_LIMITS = { files: 50_000, bytes: 256 * 1024 * 1024 } as const;

const LIST_BYTES = 16 * 1024 * 1024;
const INDEX_BYTES = 512 * 1024 * 1024;
const SLASH = 0x2f;
const ZERO = Buffer.from([0]);
/** Before a name in what `update-index --index-info` reads. */
const GONE = Buffer.from(`0 ${'0'.repeat(40)}\t`);

/** The index and the objects of the author's repository stay as they are. */
export async function commitDirty(
  host: GitHost,
  repository: PrivateRepository,
  author: OpenRepository,
  commit: string,
): Promise<string> {
  const folder = author.top.path;
  if (author.isBare)
    throw new WorkspaceProblem(
      `the repository ${folder} is bare, so nothing in it can be uncommitted: remove \`include_dirty\``,
    );
  const index = join(repository.folder, 'index');
  const env = { GIT_DIR: repository.gitDir, GIT_INDEX_FILE: index };
  const inTree = { cwd: folder, mostBytes: LIST_BYTES, env: { ...env, GIT_WORK_TREE: folder } };
  await copyIndex(author.gitDir, index);
  // An index in two parts, or none, or one of a newer git: then each file is compared.
  await gitText(host, ['ls-files', '--stage', '-z'], inTree).catch(() => gitText(host, ['read-tree', commit], inTree));
  await writeFile(join(repository.gitDir, 'info', 'exclude'), await ignoreRules(host, author));
  const ignore = ['-c', `core.excludesFile=${await userIgnoreFile(host, repository, folder)}`];
  const others = await gitBytes(host, [...ignore, 'ls-files', '-z', '--others', '--exclude-standard'], inTree);
  // With its submodules it would run git in them, under their configuration.
  const changed = await gitBytes(host, ['diff-files', '-z', '--name-only', '--ignore-submodules=all'], inTree);
  const names = [...namesIn(changed), ...namesIn(others)].filter((name) => name.at(-1) !== SLASH);
  const staging = join(repository.folder, 'changed');
  const { present, absent } = await stageFiles(author.top, names, staging);
  const inStaging = { cwd: staging, env: { ...env, GIT_WORK_TREE: staging } };
  // First: a link may have the name of the folder that they were in.
  const gone = Buffer.concat(absent.flatMap((name) => [GONE, name, ZERO]));
  await gitText(host, ['update-index', '-z', '--index-info'], { ...inStaging, stdin: gone });
  const stdin = Buffer.concat(present.flatMap((name) => [name, ZERO]));
  await gitText(host, ['update-index', '--add', '--replace', '-z', '--stdin'], { ...inStaging, stdin });
  const tree = await gitText(host, ['write-tree'], inStaging).catch((error: unknown) => {
    throw error instanceof GitError && error.reason === 'failed'
      ? new WorkspaceProblem(
          `the working tree of ${folder} cannot be packed, as in the middle of a merge: ${error.detail}`,
        )
      : error;
  });
  if (tree.trim() === (await gitText(host, ['rev-parse', `${commit}^{tree}`], inStaging)).trim()) return commit;
  const message = 'Changes that were not committed when the run began';
  return (await gitText(host, ['commit-tree', tree.trim(), '-p', commit, '-m', message], inStaging)).trim();
}

/**
 * A file that changed within the second in which the index was written is told by the time of the index alone: a copy with a
 * later one would hide it.
 */
async function copyIndex(gitDir: HeldFolder, to: string): Promise<void> {
  const facts = await gitDir.copyTo('index', to, INDEX_BYTES);
  if (facts === null) return;
  const seconds = Math.floor(facts.mtimeMs / 1_000);
  await utimes(to, seconds, seconds);
}

interface Staged {
  readonly present: readonly Buffer[];
  /** Files that are gone, or that lie behind a link. */
  readonly absent: readonly Buffer[];
}

/** Puts files that differ below a private folder. */
async function stageFiles(top: HeldFolder, names: readonly Buffer[], into: string): Promise<Staged> {
  if (names.length > DIRTY_LIMITS.files)
    throw new WorkspaceProblem(
      `${names.length} files of ${top.path} are not committed; at most ${DIRTY_LIMITS.files} may be: ignore what is built, or commit`,
    );
  await mkdir(into, { mode: 0o700 });
  const [present, absent]: [Buffer[], Buffer[]] = [[], []];
  const tree = new HeldTree(top);
  let bytes = 0;
  try {
    for (const name of names) {
      const sizeBytes = await stageFile(tree, top, name, into);
      (sizeBytes === null ? absent : present).push(name);
      bytes += sizeBytes ?? 0;
      if (bytes > DIRTY_LIMITS.bytes)
        throw new WorkspaceProblem(
          `files of ${top.path} that are not committed have more than ${DIRTY_LIMITS.bytes} bytes, which is the most that is packed: ignore what is built, or commit`,
        );
    }
    return { present, absent };
  } finally {
    await tree.close();
  }
}

/** @returns its bytes; null if there is no file */
async function stageFile(tree: HeldTree, top: HeldFolder, path: Buffer, into: string): Promise<number | null> {
  const { folder, name } = await tree.find(path);
  const facts = folder === null ? null : await folder.facts(name);
  if (folder === null || facts === null || facts.isDirectory()) return null;
  const staged = Buffer.concat([Buffer.from(`${into}/`), path]);
  await mkdir(staged.subarray(0, staged.lastIndexOf(SLASH)), { recursive: true });
  if (facts.isSymbolicLink()) {
    await symlink(await folder.readLink(name), staged);
    return 0;
  }
  if (!facts.isFile())
    throw new WorkspaceProblem(
      `${top.placeOf(path)} is a pipe, a socket or a device, which a commit cannot have: remove it, or ignore it`,
    );
  if (facts.size > DIRTY_LIMITS.bytes) return facts.size;
  const linked = await folder.linkTo(name, staged);
  if (linked === 'linked') return facts.size;
  const copied = linked === 'absent' ? null : await folder.copyTo(name, staged, DIRTY_LIMITS.bytes);
  return copied?.size ?? null;
}

/** Rules of the repository itself: those of its `core.excludesFile`, and of `info/exclude`, which precede them. */
async function ignoreRules(host: GitHost, { top, commonDir, excludesFile }: OpenRepository): Promise<Buffer> {
  const info = await commonDir.folder('info');
  try {
    const named = excludesFile === null ? null : await readNamedRules(host, top, excludesFile);
    const own = await info?.readFile('exclude', SMALL_FILE_BYTES);
    return Buffer.concat([named ?? Buffer.alloc(0), Buffer.from('\n'), own ?? Buffer.alloc(0)]);
  } finally {
    await info?.close();
  }
}

async function readNamedRules(host: GitHost, top: HeldFolder, path: string): Promise<Buffer | null> {
  const inHome = /^~\/(.+)$/.exec(path)?.[1];
  if (inHome !== undefined && host.home === null) return null;
  const file = inHome === undefined ? resolve(top.path, path) : join(host.home!, inHome);
  return await top.readPath(file, SMALL_FILE_BYTES, '`core.excludesFile` of the repository');
}

/** The user's own rules hold as well: what they ignore everywhere, such as files with keys, stays on the host. */
async function userIgnoreFile(host: GitHost, { gitDir }: PrivateRepository, folder: string): Promise<string> {
  const call = { env: { GIT_DIR: gitDir }, withUserConfig: true };
  const named = await gitText(host, ['config', '--type=path', '--get', 'core.excludesFile'], call).catch(() => '');
  if (named.trim() !== '') return resolve(folder, named.trim());
  const configHome = host.configHome ?? (host.home === null ? null : join(host.home, '.config'));
  return configHome === null ? '/dev/null' : join(configHome, 'git', 'ignore');
}
