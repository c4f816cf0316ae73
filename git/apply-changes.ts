/**
 * Writes the changes of a stage into the working tree of an author. Git applies the patch with a repository of Voidbox.
 * So neither the author's configuration nor the guest's attributes start a program, and no file of the author's git
 * folder changes.
 */
import { Buffer } from 'node:buffer';
import { createWriteStream } from 'node:fs';
import { realpath } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { type Opened, patchOf } from './import-changes.ts';
import { type ChangingFile, rememberFiles } from './files-before.ts';
import { RefusedPlace } from './held-folder.ts';
import { namesIn } from './names.ts';
import { type OpenRepository, openRepository } from './open-repository.ts';
import { GIT_LIMITS, type GitCall, GitError, type GitHost, readGitBytes, readGitText } from './run-git.ts';
import { WorkspaceProblem } from './workspace-problem.ts';

/** A repository of the author. */
export interface Target {
  /** The folder that the spec or the user names, without links. */
  readonly top: string;
  /** The top of its working tree, which is `top`; null for a bare repository. */
  readonly folder: string | null;
}

export interface Conflict {
  /** The path as git names it; null if git reports a problem that concerns no single file. */
  readonly path: string | null;
  readonly problem: string;
}

/** The changes cannot be applied; the message names what the author can change. */
export class ApplyProblem extends Error {
  readonly remedy: string | null;

  constructor(message: string, remedy: string | null = OTHER_REPOSITORY) {
    super(message);
    this.name = 'ApplyProblem';
    this.remedy = remedy;
  }
}

const OTHER_REPOSITORY = 'Name the repository: voidbox apply RUN --repository FOLDER';
const UNREADABLE = `git says over ${GIT_LIMITS.stderrBytes / 1024} KiB of what is in the way; names of files with line breaks make it unreadable`;
/** Git cuts a message, and so a longer name, at 4,096 bytes. */
const MESSAGE_NAME_BYTES = 4_000;
/** Git prints this for a binary file, and the next line repeats the problem. */
const OF_BINARY = /^the patch applies to '.*' \([0-9a-f]{40}\), which does not match the current contents\.$/;
const LIST_BYTES = 64 * 1024 * 1024;
const NONE = '0'.repeat(40);

/**
 * Git does not say which folder is the top: the repository's own configuration could name another one.
 * @param named  the top folder of a working tree, or a bare repository
 * @throws ApplyProblem if it is no such folder
 */
export async function findTarget(host: GitHost, named: string): Promise<Target> {
  const top = await realpath(named);
  const author = await openForApply(host, top);
  await author.close();
  return { top, folder: author.isBare ? null : top };
}

/**
 * Opens a repository whose links may lead to any folder, because no guest receives what is read from it.
 * @throws ApplyProblem
 */
export async function openForApply(host: GitHost, top: string): Promise<OpenRepository> {
  try {
    return await openRepository(host, top, () => true);
  } catch (error) {
    if (error instanceof WorkspaceProblem || error instanceof RefusedPlace) throw new ApplyProblem(error.message);
    throw error;
  }
}

/**
 * Writes the patch to a file: if a pipe's writer ended early, git would apply the part that it had received.
 * @returns its path
 */
export async function writePatch(host: GitHost, { repository, base, commit }: Opened): Promise<string> {
  const path = join(repository.folder, 'changes.patch');
  await pipeline(patchOf(host, repository, base.base, commit), createWriteStream(path, { mode: 0o600 }));
  return path;
}

/** Lists the files and reasons for which git would reject the patch; the list is empty if the patch applies. */
export async function conflictsOf(host: GitHost, patch: Patch): Promise<readonly Conflict[]> {
  try {
    await runApply(host, patch, ['--check']);
    return [];
  } catch (error) {
    if (error instanceof GitError && error.reason === 'failed') return conflictsIn(error, await namesOf(host, patch));
    throw error;
  }
}

/** Reports whether the working tree contains all of the patch already. */
export async function isApplied(host: GitHost, patch: Patch): Promise<boolean> {
  try {
    await runApply(host, patch, ['--check', '--reverse']);
    return true;
  } catch (error) {
    if (error instanceof GitError && error.reason === 'failed') return false;
    throw error;
  }
}

/**
 * Applies the whole patch or nothing; the author's index stays unchanged. Git writes file after file, so this function
 * reverts the written files if git fails, for example because the disk is full.
 * @param records  a folder of Voidbox for copies of the files as they were before
 * @param keeps  whether these copies stay in the folder after git has applied the patch
 * @returns the folder of the copies if they stay
 * @throws ApplyProblem if git cannot write
 */
export async function applyToFolder(
  host: GitHost,
  patch: Patch,
  records: string,
  keeps = false,
): Promise<string | null> {
  const before = await rememberFiles(patch.folder, records, parseChanges(await readChanging(host, patch)), keeps);
  try {
    await runApply(host, patch, [], { outliving: before.writer });
  } catch (error) {
    await before.putBack();
    throw error instanceof GitError && error.reason === 'failed'
      ? new ApplyProblem(`git cannot write it to ${patch.folder}, which is as it was: ${quoteFirstLine(error)}`, null)
      : error;
  }
  if (keeps) return await before.keep();
  await before.forget();
  return null;
}

/** A patch and the working tree to which git applies it. */
export interface Patch {
  readonly opened: Opened;
  /** The path that `writePatch` returned. */
  readonly file: string;
  /** The top of a working tree. */
  readonly folder: string;
}

async function readChanging(host: GitHost, { opened: { repository, base, commit } }: Patch): Promise<Buffer> {
  const args = ['diff-tree', '-r', '--no-renames', '--raw', '--no-abbrev', '-z', base.base, commit];
  return await readGitBytes(host, args, { env: { GIT_DIR: repository.gitDir }, mostBytes: LIST_BYTES, confined: true });
}

async function namesOf(host: GitHost, patch: Patch): Promise<readonly string[]> {
  return parseChanges(await readChanging(host, patch)).map(({ name }) => name.toString('utf8'));
}

/** `:100644 100644 <object> <object> M`, followed by the name. */
function parseChanges(list: Buffer): readonly ChangingFile[] {
  const records = namesIn(list);
  return records.flatMap((record, index) => {
    if (index % 2 === 1) return [];
    const [was, becomes] = record.toString('latin1').split(' ').slice(2, 4) as [string, string];
    const [name, none] = [records[index + 1]!, (object: string) => (object === NONE ? null : object)];
    return [{ name, was: none(was), becomes: none(becomes) }];
  });
}

async function runApply(
  host: GitHost,
  { opened, file, folder }: Patch,
  flags: readonly string[],
  more: Pick<GitCall, 'outliving'> = {},
): Promise<void> {
  await readGitText(host, ['apply', '--whitespace=nowarn', ...flags, file], {
    cwd: folder,
    ...more,
    env: { GIT_DIR: opened.repository.gitDir, GIT_WORK_TREE: folder, GIT_CEILING_DIRECTORIES: dirname(folder) },
  });
}

/** Returns the first error; the lines that git prints after it are advice. */
export function quoteFirstLine({ said, detail }: GitError): string {
  return /^(?:fatal|error): (.+)$/m.exec(said)?.[1] ?? detail;
}

/**
 * `error: patch failed: a.txt:3`, `error: b.txt: already exists in working directory` and the like. Git quotes no name, so a name
 * with a line break could forge such a line.
 * @param names  of the files that the patch changes
 */
function conflictsIn({ said, isCut }: GitError, names: readonly string[]): readonly Conflict[] {
  const conflicts = new Map<string | null, Conflict>();
  const broken = names.filter((name) => name.includes('\n')).toSorted((a, b) => b.length - a.length);
  const isUnreadable = isCut || broken.some((name) => Buffer.byteLength(name) > MESSAGE_NAME_BYTES);
  if (isUnreadable && broken.length > 0) return [{ path: null, problem: UNREADABLE }];
  let whole = said;
  // No name has a NUL.
  for (const [index, name] of broken.entries()) whole = whole.replaceAll(maskControls(name), () => `\0${index}\0`);
  const fillNames = (text: string, write: (name: string) => string): string =>
    // eslint-disable-next-line no-control-regex
    text.replace(/\0(\d+)\0/g, (_, index: string) => write(broken[Number(index)]!));
  // The last line of a cut message may be incomplete, so it is ignored.
  for (const line of (isCut ? whole.slice(0, whole.lastIndexOf('\n') + 1) : whole).split('\n')) {
    const text = /^error: (.*)$/.exec(line)?.[1];
    // The next line repeats the problem of the file.
    if (text === undefined || text.startsWith('patch failed: ') || OF_BINARY.test(text)) continue;
    const [, found = null, problem = ''] = /^(.+): ([^:]+)$/.exec(text) ?? [null, undefined, text];
    const path = found === null ? null : fillNames(found, (name) => name);
    if (!conflicts.has(path))
      conflicts.set(path, { path, problem: fillNames(problem, (name) => JSON.stringify(name)) });
  }
  const listed = conflicts.size === 0 ? [{ path: null, problem: said.trim() }] : [...conflicts.values()];
  const more = `and more: git says over ${GIT_LIMITS.stderrBytes / 1024} KiB of what is in the way, and the rest is not listed`;
  return isCut ? [...listed, { path: null, problem: more }] : listed;
}

/** Git prints `?` for each control character of a name, except a tab or a line break. */
function maskControls(name: string): string {
  // eslint-disable-next-line no-control-regex
  return name.replaceAll(/[\u0001-\u0008\u000b-\u001f\u007f]/g, '?');
}

/** The number of commits that the author may take over. */
export async function commitsIn({ repository, base, commit }: Opened): Promise<number> {
  return Number(await repository.text(['rev-list', '--count', commit, '--not', base.commit]));
}
