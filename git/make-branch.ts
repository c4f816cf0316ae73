/**
 * Makes a branch of a stage's commits in an author's repository. Git makes the branch in a private copy. Voidbox then
 * adds the new files to the author's git folder, through descriptors; it follows no link and replaces no file.
 */
import { Buffer } from 'node:buffer';
import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { ApplyProblem, quoteFirstLine, openForApply, type Target } from './apply-changes.ts';
import { readPack } from './base-bundle.ts';
import { copyRepository, type RepositoryCopy } from './copy-repository.ts';
import { codeOf, type HeldFolder, RefusedPlace } from './held-folder.ts';
import type { Opened } from './import-changes.ts';
import type { OpenRepository } from './open-repository.ts';
import { GitError, type GitHost, readGitText, streamGit } from './run-git.ts';
import { WorkspaceProblem } from './workspace-problem.ts';

const HEADS = 'refs/heads/';
const NONE = '0'.repeat(40);

/**
 * Git stores a branch as a file below folders of its name. So a branch excludes branches whose names continue its own
 * with `/`.
 */
export class BlockedBranch extends Error {
  constructor(branch: string, blocking: string) {
    super(`git cannot make the branch ${branch}, because the repository has the branch ${blocking}`);
    this.name = 'BlockedBranch';
  }
}

/** The branch name is invalid; a user may have typed it. */
export class RefusedBranchName extends Error {
  constructor() {
    super('git takes no branch of this name');
    this.name = 'RefusedBranchName';
  }
}

/**
 * Makes the branch, but does not merge it.
 * @returns whether it is new; otherwise it already existed at the same commit
 * @throws BlockedBranch if a branch of the repository excludes the name
 * @throws RefusedBranchName
 * @throws ApplyProblem if the repository lacks the commit from which the run started, or has another branch of this
 * name
 */
export async function makeBranch(
  host: GitHost,
  opened: Opened,
  { top }: Target,
  branch: string,
): Promise<{ readonly isNew: boolean }> {
  const author = await openForApply(host, top);
  try {
    refuseOther(author);
    const copy = await copyRepository(author, join(opened.repository.folder, 'author'), () => true);
    return await makeIn(host, opened, author, copy, branch);
  } catch (error) {
    throw toApplyProblem(error, branch);
  } finally {
    await author.close();
  }
}

function toApplyProblem(error: unknown, branch: string): unknown {
  if (error instanceof WorkspaceProblem) return new ApplyProblem(error.message);
  if (error instanceof RefusedPlace)
    return new ApplyProblem(`git cannot make the branch ${branch}: ${error.message}`, null);
  if (error instanceof GitError && error.reason === 'failed')
    return new ApplyProblem(`git cannot make the branch ${branch}: ${quoteFirstLine(error)}`, null);
  const code = codeOf(error);
  if (code === 'ENOSPC' || code === 'EDQUOT') return new GitError('disk-full', (error as Error).message);
  return error;
}

/** Rejects a `.git` that leads to the repository of another folder, because the branch would change that repository. */
function refuseOther({ top, gitDir, isOwn, refStorage }: OpenRepository): void {
  if (!isOwn)
    throw new ApplyProblem(
      `${top.placeOf('.git')} leads to ${gitDir.path}, a repository that does not name ${top.path} as its working tree`,
      `Name the repository that gets the branch: voidbox apply RUN --branch --repository ${gitDir.path}`,
    );
  if (refStorage !== 'files')
    throw new ApplyProblem(
      `${top.path} stores its references as ${refStorage}, in which Voidbox makes no branch`,
      'Fetch the commits: voidbox artifacts RUN get STAGE.changes.bundle, and git fetch FILE voidbox',
    );
}

async function makeIn(
  host: GitHost,
  { base, commit, repository }: Opened,
  author: OpenRepository,
  copy: RepositoryCopy,
  branch: string,
): Promise<{ readonly isNew: boolean }> {
  const { gitDir } = copy;
  await refuseName(host, gitDir, branch);
  const reference = `${HEADS}${branch}`;
  const known = await findCommit(host, gitDir, reference);
  if (known === commit) return { isNew: false };
  if (known !== null)
    throw new ApplyProblem(`there is a branch ${branch} at another commit, ${known}: rename it or delete it`, null);
  const blocking = await findBlocking(host, gitDir, reference);
  if (blocking !== null) throw new BlockedBranch(branch, blocking);
  if ((await findCommit(host, gitDir, `${base.commit}^{commit}`)) === null)
    throw new ApplyProblem(
      `the repository does not have the commit ${base.commit}, which the run started from: fetch it, or name the repository that has it`,
    );
  const packs = join(copy.objects, 'pack');
  const before = new Set(await readdir(packs));
  const pack = streamGit(host, ['pack-objects', '--revs', '--thin', '--stdout', '-q', '--delta-base-offset'], {
    env: { GIT_DIR: repository.gitDir },
    stdin: Buffer.from(`${commit}\n^${base.commit}\n`),
    mostBytes: Infinity,
  });
  await readPack(host, { ...repository, gitDir }, pack, 'content');
  await readGitText(host, ['update-ref', reference, commit, NONE], { env: { GIT_DIR: gitDir } });
  const made = (await readdir(packs)).filter((name) => !before.has(name));
  // Git detects a pack by its index, so the index comes last.
  const order = ['.pack', '.rev', '.idx'].flatMap((end) => made.filter((name) => name.endsWith(end)));
  await openInFolder(author.commonDir, ['objects', 'pack'], async (folder) => {
    for (const name of order) await installFile(folder, join(packs, name), name);
  });
  await installReference(author.commonDir, reference, commit, branch);
  return { isNew: true };
}

/** Rejects names that `git branch` would reject, because `update-ref` accepts them. */
async function refuseName(host: GitHost, gitDir: string, branch: string): Promise<void> {
  try {
    const name = await readGitText(host, ['check-ref-format', '--branch', branch], { env: { GIT_DIR: gitDir } });
    // Git replaces `@{-1}` by the previous branch.
    if (name === `${branch}\n`) return;
  } catch (error) {
    if (!(error instanceof GitError && error.reason === 'failed')) throw error;
  }
  throw new RefusedBranchName();
}

/** Returns the branch that excludes this reference: a prefix of its name, or a name that it is a prefix of. */
async function findBlocking(host: GitHost, gitDir: string, reference: string): Promise<string | null> {
  const names = reference.split('/');
  const shorter = names.slice(3).map((_, index) => names.slice(0, index + 3).join('/'));
  for (const each of shorter) if ((await findCommit(host, gitDir, each)) !== null) return each.slice(HEADS.length);
  const list = ['for-each-ref', '--count=1', '--format=%(refname)', `${reference}/`];
  const longer = (await readGitText(host, list, { env: { GIT_DIR: gitDir } })).trimEnd();
  return longer === '' ? null : longer.slice(HEADS.length);
}

async function findCommit(host: GitHost, gitDir: string, name: string): Promise<string | null> {
  try {
    const args = ['rev-parse', '--verify', '--quiet', '--end-of-options', name];
    return (await readGitText(host, args, { env: { GIT_DIR: gitDir } })).trim();
  } catch (error) {
    if (error instanceof GitError && error.reason === 'failed') return null;
    throw error;
  }
}

/** @throws RefusedPlace if one of the folders is a link or a file */
async function openInFolder(
  start: HeldFolder,
  names: readonly string[],
  work: (folder: HeldFolder) => Promise<void>,
): Promise<void> {
  const held: HeldFolder[] = [];
  try {
    for (const name of names) held.push(await (held.at(-1) ?? start).folderToWrite(name));
    await work(held.at(-1) ?? start);
  } finally {
    for (const folder of held.reverse()) await folder.close();
  }
}

async function installFile(folder: HeldFolder, from: string, name: string): Promise<void> {
  const temporary = `tmp_voidbox_${randomUUID()}`;
  try {
    await folder.writeFile(temporary, 0o444, async (file) => {
      for await (const chunk of createReadStream(from)) await file.writeFile(chunk as Buffer);
    });
    await folder.rename(temporary, name);
    await folder.sync();
  } catch (error) {
    await folder.remove(temporary);
    throw error;
  }
}

/** Works like git: creating the lock file takes the lock, and renaming it creates the reference. */
async function installReference(
  commonDir: HeldFolder,
  reference: string,
  commit: string,
  branch: string,
): Promise<void> {
  const names = reference.split('/');
  const leaf = names.pop()!;
  const lock = `${leaf}.lock`;
  await openInFolder(commonDir, names, async (folder) => {
    try {
      await folder.writeFile(lock, 0o666, (file) => file.writeFile(`${commit}\n`));
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') throw error;
      throw new ApplyProblem(
        `git cannot make the branch ${branch}: ${folder.placeOf(lock)}: File exists; another git is at work there, or was killed: then remove that file`,
        null,
      );
    }
    if ((await folder.facts(leaf)) !== null) {
      await folder.remove(lock);
      throw new ApplyProblem(`there is a branch ${branch} by now: rename it or delete it`, null);
    }
    await folder.rename(lock, leaf);
    await folder.sync();
  });
}
