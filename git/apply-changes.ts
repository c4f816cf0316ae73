/**
 * What a stage left, into a repository of the author: as files of the working tree, or as a branch. The patch is applied under a
 * repository of our own, so that neither the author's configuration nor attributes of the guest name a program that runs.
 */
import { realpath } from 'node:fs/promises';
import { dirname } from 'node:path';
import { readPack } from './base-bundle.ts';
import { type Opened, patchOf } from './import-changes.ts';
import { GitError, type GitHost, gitText, streamGit } from './run-git.ts';

/** A repository of the author. */
export interface Target {
  readonly gitDir: string;
  /** The top of its working tree; null of a bare one. */
  readonly folder: string | null;
}

export interface Conflict {
  /** As git names it; what it says of no file alone has none. */
  readonly path: string | null;
  readonly problem: string;
}

/** Why it is not done; the message names what the author can change. */
export class ApplyProblem extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'ApplyProblem';
  }
}

/** @param within  a folder of it, or in it @throws ApplyProblem where it is none */
export async function findTarget(host: GitHost, within: string): Promise<Target> {
  const ask = async (flag: string): Promise<string> =>
    (await gitText(host, ['rev-parse', flag], { cwd: within })).replace(/\n$/, '');
  try {
    const gitDir = await ask('--absolute-git-dir');
    if ((await ask('--is-bare-repository')) === 'true') return { gitDir, folder: null };
    return { gitDir, folder: await realpath(await ask('--show-toplevel')) };
  } catch (error) {
    if (error instanceof GitError && error.reason !== 'failed') throw error;
    throw new ApplyProblem(`${within} is no git repository`);
  }
}

/** What stands against it; empty: it applies. */
export async function conflictsOf(host: GitHost, opened: Opened, folder: string): Promise<readonly Conflict[]> {
  try {
    await runApply(host, opened, folder, ['--check']);
    return [];
  } catch (error) {
    if (error instanceof GitError && error.reason === 'failed') return conflictsIn(error.said);
    throw error;
  }
}

/** Whether the working tree has all of it already. */
export async function isApplied(host: GitHost, opened: Opened, folder: string): Promise<boolean> {
  try {
    await runApply(host, opened, folder, ['--check', '--reverse']);
    return true;
  } catch (error) {
    if (error instanceof GitError && error.reason === 'failed') return false;
    throw error;
  }
}

/** All of it or nothing; the index of the author stays as it is. */
export async function applyToFolder(host: GitHost, opened: Opened, folder: string): Promise<void> {
  await runApply(host, opened, folder, []);
}

async function runApply(host: GitHost, opened: Opened, folder: string, flags: readonly string[]): Promise<void> {
  const { repository, base, commit } = opened;
  await gitText(host, ['apply', '--whitespace=nowarn', ...flags, '-'], {
    cwd: folder,
    env: { GIT_DIR: repository.gitDir, GIT_WORK_TREE: folder, GIT_CEILING_DIRECTORIES: dirname(folder) },
    stdin: patchOf(host, repository, base.base, commit),
  });
}

/** `error: patch failed: a.txt:3`, `error: b.txt: already exists in working directory` and the like. */
function conflictsIn(said: string): readonly Conflict[] {
  const conflicts = new Map<string | null, Conflict>();
  for (const line of said.split('\n')) {
    const text = /^error: (.*)$/.exec(line)?.[1];
    // The line behind it says the same of the file.
    if (text === undefined || text.startsWith('patch failed: ')) continue;
    const [, path, problem] = /^(.+): ([^:]+)$/.exec(text) ?? [null, null, text];
    if (!conflicts.has(path!)) conflicts.set(path!, { path: path!, problem: problem! });
  }
  return conflicts.size === 0 ? [{ path: null, problem: said.trim() }] : [...conflicts.values()];
}

const NONE = '0'.repeat(40);

/**
 * The commits as a branch, which nothing is merged into.
 * @returns whether it was there already, at the same commit
 * @throws ApplyProblem where the repository lacks the commit that the run started from, or has another branch of the name
 */
export async function makeBranch(
  host: GitHost,
  opened: Opened,
  { gitDir }: Target,
  branch: string,
): Promise<{ readonly isNew: boolean }> {
  const { base, commit, repository } = opened;
  const env = { GIT_DIR: gitDir };
  const known = await refOf(host, gitDir, `refs/heads/${branch}`);
  if (known === commit) return { isNew: false };
  if (known !== null)
    throw new ApplyProblem(`there is a branch ${branch} at another commit, ${known}: rename it or delete it`);
  if ((await refOf(host, gitDir, `${base.commit}^{commit}`)) === null)
    throw new ApplyProblem(
      `the repository does not have the commit ${base.commit}, which the run started from: fetch it, or name the repository that has it`,
    );
  const pack = streamGit(host, ['pack-objects', '--revs', '--thin', '--stdout', '-q', '--delta-base-offset'], {
    env: { GIT_DIR: repository.gitDir },
    stdin: Buffer.from(`${commit}\n^${base.commit}\n`),
    mostBytes: Infinity,
  });
  await readPack(host, { ...repository, gitDir }, pack, true);
  await gitText(host, ['update-ref', '-m', 'voidbox apply', `refs/heads/${branch}`, commit, NONE], { env });
  return { isNew: true };
}

async function refOf(host: GitHost, gitDir: string, name: string): Promise<string | null> {
  try {
    const args = ['rev-parse', '--verify', '--quiet', '--end-of-options', name];
    return (await gitText(host, args, { env: { GIT_DIR: gitDir } })).trim();
  } catch (error) {
    if (error instanceof GitError && error.reason === 'failed') return null;
    throw error;
  }
}

/** How many commits there are to take. */
export async function commitsIn({ repository, base, commit }: Opened): Promise<number> {
  return Number(await repository.text(['rev-list', '--count', commit, '--not', base.commit]));
}
