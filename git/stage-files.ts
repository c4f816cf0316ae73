/** Copies files of an author's working tree into a private folder for git, without opening a link or a pipe. */
import { Buffer } from 'node:buffer';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import type { HeldFolder } from './held-folder.ts';
import { HeldTree } from './held-tree.ts';
import { type GitCall, type GitHost, readGitText } from './run-git.ts';
import { WorkspaceProblem } from './workspace-problem.ts';

export const STAGE_LIMITS = { files: 50_000, bytes: 256 * 1024 * 1024 } as const;

const ATTRIBUTES_BYTES = 100 * 1024 * 1024;
const SLASH = 0x2f;
const ZERO = Buffer.from([0]);
/** The text before a name in the input of `update-index --index-info`. */
const GONE = Buffer.from(`0 ${'0'.repeat(40)}\t`);

export interface StagedFiles {
  readonly present: readonly Buffer[];
  /** Files that are deleted, or that are below a link. */
  readonly absent: readonly Buffer[];
}

/** Text for an error: the files that exceed the limit, and the remedy. */
export interface StagedKind {
  readonly which: string;
  readonly remedy: string;
}

/**
 * Copies files of a working tree to a private folder, unchanged.
 * @param into  a folder that does not exist yet
 * @param attributes  `.gitattributes` files by which git reads the others; none of them is in `names` or in the result
 * @throws WorkspaceProblem
 */
export async function stageFiles(
  top: HeldFolder,
  names: readonly Buffer[],
  into: string,
  { which, remedy }: StagedKind,
  attributes: readonly Buffer[] = [],
): Promise<StagedFiles> {
  if (names.length > STAGE_LIMITS.files)
    throw new WorkspaceProblem(
      `there are ${names.length} files of ${top.path} ${which}; at most ${STAGE_LIMITS.files} may be: ${remedy}`,
    );
  await mkdir(into, { mode: 0o700 });
  const [present, absent]: [Buffer[], Buffer[]] = [[], []];
  const tree = new HeldTree(top);
  let bytes = 0;
  try {
    // Attributes come first: a file of these names may be a link by now, and nothing may be written through a link.
    for (const name of attributes) bytes += await stageAttributes(tree, name, into);
    for (const name of names) {
      const sizeBytes = await stageFile(tree, top, name, into);
      (sizeBytes === null ? absent : present).push(name);
      bytes += sizeBytes ?? 0;
      if (bytes > STAGE_LIMITS.bytes)
        throw new WorkspaceProblem(
          `files of ${top.path} ${which} have more than ${STAGE_LIMITS.bytes} bytes, which is the most that is read: ${remedy}`,
        );
    }
    return { present, absent };
  } finally {
    await tree.close();
  }
}

/**
 * Copies an attributes file. A folder without one gets an empty one, because git would use the attributes in its index.
 * @returns its bytes
 */
async function stageAttributes(tree: HeldTree, path: Buffer, into: string): Promise<number> {
  const { folder, name } = await tree.find(path);
  if (folder === null) return 0;
  const staged = Buffer.concat([Buffer.from(`${into}/`), path]);
  await mkdir(staged.subarray(0, staged.lastIndexOf(SLASH)), { recursive: true });
  const facts = await folder.facts(name);
  // Git follows no link to attributes, and ignores larger files.
  const copied =
    facts?.isFile() === true && facts.size <= ATTRIBUTES_BYTES
      ? await folder.copyTo(name, staged, ATTRIBUTES_BYTES)
      : null;
  if (copied === null) await writeFile(staged, '', { flag: 'wx', mode: 0o600 });
  return copied?.size ?? 0;
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
  if (facts.size > STAGE_LIMITS.bytes) return facts.size;
  const linked = await folder.linkTo(name, staged);
  if (linked === 'linked') return facts.size;
  const copied = linked === 'absent' ? null : await folder.copyTo(name, staged, STAGE_LIMITS.bytes);
  return copied?.size ?? null;
}

/** @param call  uses the staged files as its working tree, and a private index */
export async function updateIndex(host: GitHost, { present, absent }: StagedFiles, call: GitCall): Promise<void> {
  // Deleted files come first: a link may have the name of the folder that contained them.
  const gone = Buffer.concat(absent.flatMap((name) => [GONE, name, ZERO]));
  await readGitText(host, ['update-index', '-z', '--index-info'], { ...call, stdin: gone });
  const stdin = Buffer.concat(present.flatMap((name) => [name, ZERO]));
  await readGitText(host, ['update-index', '--add', '--replace', '-z', '--stdin'], { ...call, stdin });
}
