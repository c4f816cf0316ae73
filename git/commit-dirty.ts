/**
 * Commits the working tree of an author on top of HEAD, without ignored files. Git of the host lists the differences.
 * Voidbox opens the files, through no link and no pipe, and git reads their copies.
 */
import { Buffer } from 'node:buffer';
import { utimes, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { HeldFolder } from './held-folder.ts';
import { namesIn } from './names.ts';
import { type OpenRepository, SMALL_FILE_BYTES } from './open-repository.ts';
import type { PrivateRepository } from './private-repository.ts';
import { type GitCall, GitError, type GitHost, readGitBytes, readGitText } from './run-git.ts';
import { stageFiles, updateIndex } from './stage-files.ts';
import { WorkspaceProblem } from './workspace-problem.ts';

const NOT_COMMITTED = { which: 'that are not committed', remedy: 'ignore what is built, or commit' } as const;
const LIST_BYTES = 16 * 1024 * 1024;
const INDEX_BYTES = 512 * 1024 * 1024;
const SLASH = 0x2f;

/**
 * Equal files on top of an equal HEAD are an equal commit. So a service that has its bundle does not get it again. The index and
 * the objects of the author's repository stay unchanged.
 */
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
  // If the index is split, missing or of a newer git, each file is compared.
  await readGitText(host, ['ls-files', '--stage', '-z'], inTree).catch(() =>
    readGitText(host, ['read-tree', commit], inTree),
  );
  await writeFile(join(repository.gitDir, 'info', 'exclude'), await ignoreRules(host, author));
  const ignore = ['-c', `core.excludesFile=${await userIgnoreFile(host, repository, folder)}`];
  const others = await readGitBytes(host, [...ignore, 'ls-files', '-z', '--others', '--exclude-standard'], inTree);
  // Without this option, git would run in the submodules, with their configuration.
  const changed = await readGitBytes(host, ['diff-files', '-z', '--name-only', '--ignore-submodules=all'], inTree);
  const names = [...namesIn(changed), ...namesIn(others)].filter((name) => name.at(-1) !== SLASH);
  const staging = join(repository.folder, 'changed');
  const staged = await stageFiles(author.top, names, staging, NOT_COMMITTED);
  const inStaging = { cwd: staging, env: { ...env, GIT_WORK_TREE: staging } };
  await updateIndex(host, staged, inStaging);
  const tree = await readGitText(host, ['write-tree'], inStaging).catch((error: unknown) => {
    throw error instanceof GitError && error.reason === 'failed'
      ? new WorkspaceProblem(
          `the working tree of ${folder} cannot be packed, as in the middle of a merge: ${error.detail}`,
        )
      : error;
  });
  if (tree.trim() === (await readGitText(host, ['rev-parse', `${commit}^{tree}`], inStaging)).trim()) return commit;
  const message = 'Changes that were not committed when the run began';
  const date = await readDate(host, commit, inStaging);
  const dated = { ...inStaging, env: { ...inStaging.env, GIT_AUTHOR_DATE: date, GIT_COMMITTER_DATE: date } };
  return (await readGitText(host, ['commit-tree', tree.trim(), '-p', commit, '-m', message], dated)).trim();
}

/** Returns the time of a commit in a form that git reads. A time that git would refuse in a new commit becomes 1970. */
async function readDate(host: GitHost, commit: string, call: GitCall): Promise<string> {
  const seconds = (await readGitText(host, ['show', '-s', '--format=%ct', commit], call)).trim();
  return `@${/^\d{1,10}$/.test(seconds) ? seconds : '0'} +0000`;
}

/**
 * Only the time of the index shows a file that changed in the second in which git wrote the index: a copy with a later time would
 * hide the change.
 */
async function copyIndex(gitDir: HeldFolder, to: string): Promise<void> {
  const facts = await gitDir.copyTo('index', to, INDEX_BYTES);
  if (facts === null) return;
  const seconds = Math.floor(facts.mtimeMs / 1_000);
  await utimes(to, seconds, seconds);
}

/**
 * Rules of the repository itself: those of its `core.excludesFile`, and after them those of `info/exclude`, which take
 * precedence.
 */
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

/** The user's own rules apply too: files that they ignore everywhere, such as files with keys, stay on the host. */
async function userIgnoreFile(host: GitHost, { gitDir }: PrivateRepository, folder: string): Promise<string> {
  const call = { env: { GIT_DIR: gitDir }, withUserConfig: true };
  const named = await readGitText(host, ['config', '--type=path', '--get', 'core.excludesFile'], call).catch(() => '');
  if (named.trim() !== '') return resolve(folder, named.trim());
  const configHome = host.configHome ?? (host.home === null ? null : join(host.home, '.config'));
  return configHome === null ? '/dev/null' : join(configHome, 'git', 'ignore');
}
