/**
 * Merges a stage's changes with the current working tree, into a patch for `git apply`. Git merges commits in a private
 * repository: its own `apply --3way` needs the author's index, and writes while it merges.
 */
import { Buffer } from 'node:buffer';
import { join } from 'node:path';
import { ApplyProblem } from './apply-changes.ts';
import { HeldFolder } from './held-folder.ts';
import type { Opened } from './import-changes.ts';
import { namesIn } from './names.ts';
import { GitError, type GitHost, readGitBytes, readGitText, streamGit } from './run-git.ts';
import { stageFiles, updateIndex } from './stage-files.ts';

export interface Merged {
  /** The changes from the current files of the working tree to the merged files. */
  readonly opened: Opened;
  /** False if each file stays unchanged. */
  readonly changesFiles: boolean;
  /** Files in which both sides changed the same lines; they have conflict markers, or the version of the working tree. */
  readonly conflicts: readonly MergeConflict[];
}

export interface MergeConflict {
  readonly path: string;
  /** The problem in git's words. */
  readonly problem: string;
}

const CHANGED = { which: 'that the stage changed', remedy: 'take the commits as a branch' } as const;
const LIST_BYTES = 64 * 1024 * 1024;
/** Both become names of branches, which git writes after conflict markers. */
const YOURS = 'yours';

/**
 * @param folder  the top of a working tree
 * @param label  the name of the other side in conflict markers, which must be a valid branch name
 * @throws WorkspaceProblem, RefusedPlace, GitError, ApplyProblem if a file has markers of an earlier merge
 */
export async function mergeChanges(host: GitHost, opened: Opened, folder: string, label: string): Promise<Merged> {
  const { repository, base, commit } = opened;
  const env = { GIT_DIR: repository.gitDir, GIT_INDEX_FILE: join(repository.folder, 'merge-index') };
  const text = async (...args: readonly string[]): Promise<string> => (await readGitText(host, args, { env })).trim();
  const list = ['diff-tree', '-r', '--no-renames', '--name-only', '-z', base.base, commit];
  const names = namesIn(await readGitBytes(host, list, { env, mostBytes: LIST_BYTES, confined: true }));
  const current = await commitCurrent(host, opened, folder, names, env);
  await refuseMarkers(host, current, label, env);
  // A stage may have rewritten the history, so the merge uses trees, whose common ancestor is the base.
  const theirs = await text('commit-tree', `${commit}^{tree}`, '-p', base.base, '-m', label);
  await text('update-ref', `refs/heads/${YOURS}`, current);
  await text('update-ref', `refs/heads/${label}`, theirs);
  const { tree, conflicts } = await mergeTrees(host, env, label);
  const merged = await text('commit-tree', tree, '-p', current, '-m', 'merged');
  const changesFiles = tree !== (await text('rev-parse', `${current}^{tree}`));
  return { opened: { ...opened, base: { ...base, base: current }, commit: merged }, changesFiles, conflicts };
}

/** Commits the base, with the working tree's versions of the files that the stage changed. */
async function commitCurrent(
  host: GitHost,
  { repository, base }: Opened,
  folder: string,
  names: readonly Buffer[],
  env: Readonly<Record<string, string>>,
): Promise<string> {
  const staging = join(repository.folder, 'current');
  const top = await HeldFolder.open(folder, () => true);
  try {
    const staged = await stageFiles(top, names, staging, CHANGED, attributesOf(names));
    const call = { cwd: staging, env: { ...env, GIT_WORK_TREE: staging } };
    await readGitText(host, ['read-tree', base.base], call);
    await updateIndex(host, staged, call);
    const tree = (await readGitText(host, ['write-tree'], call)).trim();
    return (await readGitText(host, ['commit-tree', tree, '-p', base.base, '-m', YOURS], call)).trim();
  } finally {
    await top.close();
  }
}

/**
 * Returns the attributes files that apply to these names, such as `eol=crlf`: those of the working tree, as for `git
 * apply`.
 */
function attributesOf(names: readonly Buffer[]): readonly Buffer[] {
  const changed = new Set(names.map((name) => name.toString('latin1')));
  const found = new Set(['.gitattributes']);
  for (const name of changed)
    for (let at = name.indexOf('/'); at !== -1; at = name.indexOf('/', at + 1))
      found.add(`${name.slice(0, at)}/.gitattributes`);
  return [...found].filter((name) => !changed.has(name)).map((name) => Buffer.from(name, 'latin1'));
}

/** Rejects files with conflict markers, because git would put markers around them. */
async function refuseMarkers(
  host: GitHost,
  current: string,
  label: string,
  env: Readonly<Record<string, string>>,
): Promise<void> {
  const args = ['grep', '-I', '-l', '-z', '--fixed-strings', '-e', `>>>>>>> ${label}`, current];
  const found = await readGitBytes(host, args, { env, mostBytes: LIST_BYTES, confined: true }).catch(
    (error: unknown) => {
      // Git found no match, and then fails without a message.
      if (error instanceof GitError && error.reason === 'failed' && error.said === '') return Buffer.alloc(0);
      throw error;
    },
  );
  const [first, ...others] = namesIn(found).map((name) => name.subarray(current.length + 1).toString());
  if (first === undefined) return;
  throw new ApplyProblem(
    `${first}${others.length === 0 ? '' : ` and ${others.length} more`} still ${others.length === 0 ? 'has' : 'have'} conflict markers of an earlier \`voidbox apply --3way\``,
    'Edit the files between <<<<<<< and >>>>>>>, or put them back as they were before',
  );
}

async function mergeTrees(
  host: GitHost,
  env: Readonly<Record<string, string>>,
  label: string,
): Promise<{ readonly tree: string; readonly conflicts: readonly MergeConflict[] }> {
  const args = ['merge-tree', '--write-tree', '--messages', '--name-only', '-z', YOURS, label];
  const parts: Uint8Array[] = [];
  try {
    for await (const chunk of streamGit(host, args, { env, mostBytes: LIST_BYTES, confined: true })) parts.push(chunk);
  } catch (error) {
    // With conflicts git exits with 1, and prints the same output as without.
    if (!(error instanceof GitError) || error.reason !== 'failed' || parts.length === 0) throw error;
  }
  const fields = Buffer.concat(parts).toString('utf8').split('\0');
  const [tree = ''] = fields;
  if (!/^[0-9a-f]{40}$/.test(tree)) throw new GitError('failed', 'merge-tree: it names no tree');
  const end = fields.indexOf('', 1);
  const paths = fields.slice(1, end === -1 ? 1 : end);
  const messages = end === -1 ? [] : readMessages(fields.slice(end + 1));
  const problemOf = (path: string): string => messages.find((each) => each.paths.includes(path))?.text ?? 'conflict';
  return { tree, conflicts: [...new Set(paths)].map((path) => ({ path, problem: problemOf(path) })) };
}

interface Message {
  readonly paths: readonly string[];
  readonly text: string;
}

/**
 * Reads the number of paths, the paths, the kind and the text of each message. Kinds that are not conflicts, such as
 * `Auto-merging`, are left out.
 */
function readMessages(fields: readonly string[]): readonly Message[] {
  const messages: Message[] = [];
  for (let at = 0; at < fields.length;) {
    const count = Number(fields[at]);
    if (!Number.isSafeInteger(count) || count < 1) break;
    const paths = fields.slice(at + 1, at + 1 + count);
    const [kind = '', text = ''] = fields.slice(at + 1 + count);
    if (kind.startsWith('CONFLICT')) messages.push({ paths, text: text.trim() });
    at += count + 3;
  }
  return messages;
}
