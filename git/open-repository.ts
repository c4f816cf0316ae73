/**
 * Finds the folders of an author's repository, and reads its format from its configuration. Git does not run in it,
 * because its configuration can name programs, and its links can lead to any file.
 */
import type { Buffer } from 'node:buffer';
import { lstat, realpath } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { HeldFolder, type ReadPermission } from './held-folder.ts';
import { GitError, type GitHost, readGitText } from './run-git.ts';
import { WorkspaceProblem } from './workspace-problem.ts';

export interface OpenRepository {
  /** The folder that the spec or the user names: the top of a working tree, or a bare repository. */
  readonly top: HeldFolder;
  /** The folder with `HEAD` and the index. */
  readonly gitDir: HeldFolder;
  /**
   * The folder with objects and references. In a linked working tree it differs from `gitDir`; otherwise it is the
   * same.
   */
  readonly commonDir: HeldFolder;
  readonly isBare: boolean;
  readonly isShallow: boolean;
  readonly refStorage: 'files' | 'reftable';
  /** `core.excludesFile` in the repository's own configuration. */
  readonly excludesFile: string | null;
  /** Whether the repository names this top folder as its own; if not, `.git` leads to the repository of another folder. */
  readonly isOwn: boolean;
  close(): Promise<void>;
}

/** The size limit of files that git reads as text. */
export const SMALL_FILE_BYTES = 1024 * 1024;
const PATH_BYTES = 8 * 1024;

/**
 * @param folder  a path without links
 * @throws WorkspaceProblem if it is not a repository, or not supported; RefusedPlace
 */
export async function openRepository(host: GitHost, folder: string, mayRead: ReadPermission): Promise<OpenRepository> {
  const held: HeldFolder[] = [];
  const close = async (): Promise<void> => {
    for (const each of held) await each.close();
  };
  const hold = (each: HeldFolder): HeldFolder => {
    held.push(each);
    return each;
  };
  try {
    const top = hold(await openTop(folder, mayRead));
    const found = await openGitDir(top, mayRead);
    const gitDir = found === null ? top : hold(found);
    const linked = await gitDir.readFile('commondir', PATH_BYTES);
    const commonDir = linked === null ? gitDir : hold(await openNamed(gitDir, 'commondir', linked, mayRead));
    await checkLayout(folder, gitDir, commonDir);
    const facts = await readFormat(host, folder, gitDir, commonDir);
    const worktree = facts.worktree === null ? null : await resolveFolder(gitDir.path, facts.worktree);
    if (facts.worktree !== null && (found === null || worktree !== top.path))
      throw new WorkspaceProblem(
        `the repository ${folder} names another folder as its working tree: \`core.worktree\` is ${facts.worktree}; remove that from ${commonDir.path}/config, or name the top folder of that working tree`,
      );
    const isBare = found === null || facts.isBare;
    const isOwn = worktree === top.path || (await isOwnGitDir(top, gitDir, commonDir, found === null));
    const shallow = await commonDir.facts('shallow');
    const isShallow = shallow !== null && !(shallow.isFile() && shallow.size === 0);
    return { ...facts, top, gitDir, commonDir, isBare, isOwn, isShallow, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function openTop(folder: string, mayRead: ReadPermission): Promise<HeldFolder> {
  try {
    return await HeldFolder.open(folder, mayRead);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') throw new WorkspaceProblem(`${folder} does not exist`);
    throw error;
  }
}

/** Opens `.git`. Null if it does not exist, so that the folder itself may be a bare repository. */
async function openGitDir(top: HeldFolder, mayRead: ReadPermission): Promise<HeldFolder | null> {
  const facts = await top.facts('.git');
  if (facts === null) return null;
  const isFolder = facts.isSymbolicLink() ? await top.isFolder('.git') : facts.isDirectory();
  if (isFolder) return await top.folder('.git');
  const text = await top.readFile('.git', PATH_BYTES);
  if (text === null) throw new WorkspaceProblem(`${top.placeOf('.git')} is a link to a file that does not exist`);
  const prefix = 'gitdir: ';
  if (!text.toString('latin1').startsWith(prefix))
    throw new WorkspaceProblem(`${top.placeOf('.git')} names no git folder: it does not begin with \`${prefix}\``);
  return await openNamed(top, '.git', text.subarray(prefix.length), mayRead);
}

async function openNamed(within: HeldFolder, file: string, text: Buffer, mayRead: ReadPermission): Promise<HeldFolder> {
  const path = withoutLineEnd(text);
  try {
    return await HeldFolder.open(resolve(within.path, path), mayRead, within.placeOf(file));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    throw new WorkspaceProblem(`${within.placeOf(file)} names a folder that does not exist: ${path}`);
  }
}

function withoutLineEnd(text: Buffer): string {
  return text.toString('utf8').replace(/[\r\n]+$/, '');
}

async function checkLayout(folder: string, gitDir: HeldFolder, commonDir: HeldFolder): Promise<void> {
  const [head, objects, refs] = [
    await gitDir.facts('HEAD'),
    await commonDir.facts('objects'),
    await commonDir.facts('refs'),
  ];
  const missing = head === null ? 'HEAD' : objects === null ? 'objects' : refs === null ? 'refs' : null;
  if (missing === null) return;
  const above = await findTopAbove(folder);
  const hint = above === null ? '' : `; it lies in the repository ${above}: name that folder`;
  throw new WorkspaceProblem(
    gitDir.path === folder
      ? `${folder} is no git repository, or not its top folder${hint}`
      : `${folder} is no git repository: ${gitDir.path} has no \`${missing}\``,
  );
}

async function findTopAbove(folder: string): Promise<string | null> {
  for (let at = dirname(folder); ; at = dirname(at)) {
    if (await lstat(join(at, '.git')).catch(() => null)) return at;
    if (at === dirname(at)) return null;
  }
}

interface Format extends Pick<OpenRepository, 'isBare' | 'refStorage' | 'excludesFile'> {
  readonly worktree: string | null;
}

/** Extensions of the format that do not affect a reader of objects and references. */
const KNOWN_EXTENSIONS = new Set([
  'noop',
  'noop-v1',
  'preciousobjects',
  'partialclone',
  'worktreeconfig',
  'relativeworktrees',
  'objectformat',
  'refstorage',
]);

async function readFormat(host: GitHost, folder: string, gitDir: HeldFolder, commonDir: HeldFolder): Promise<Format> {
  const common = await readConfig(host, commonDir, 'config');
  const has = (name: string): boolean => isTrue(common.get(name));
  const version = Number(common.get('core.repositoryformatversion') ?? '0');
  const extensions = [...common.keys()].filter((key) => key.startsWith('extensions.'));
  const unknown = extensions.find((key) => version >= 1 && !KNOWN_EXTENSIONS.has(key.slice('extensions.'.length)));
  if (!(version <= 1) || unknown !== undefined)
    throw new WorkspaceProblem(
      `the repository ${folder} has a format that is not supported: ${unknown ?? `version ${version}`} in ${commonDir.path}/config`,
    );
  const objectFormat = common.get('extensions.objectformat')?.toLowerCase() ?? 'sha1';
  if (objectFormat !== 'sha1')
    throw new WorkspaceProblem(`the repository ${folder} names objects by ${objectFormat}; only sha1 is supported`);
  const refStorage = common.get('extensions.refstorage')?.toLowerCase() ?? 'files';
  if (refStorage !== 'files' && refStorage !== 'reftable')
    throw new WorkspaceProblem(
      `the repository ${folder} stores references as ${refStorage}; only files and reftable are supported`,
    );
  const ofTree = has('extensions.worktreeconfig') ? await readConfig(host, gitDir, 'config.worktree') : new Map();
  // As in git, these keys of the common configuration do not apply to a linked working tree.
  const main = gitDir === commonDir ? common : new Map<string, string>();
  return {
    refStorage,
    isBare: isTrue(ofTree.get('core.bare') ?? main.get('core.bare')),
    worktree: ofTree.get('core.worktree') ?? main.get('core.worktree') ?? null,
    excludesFile: ofTree.get('core.excludesfile') ?? common.get('core.excludesfile') ?? null,
  };
}

/** Reads a configuration with git, which parses a copy of the text from its standard input and follows no include. */
async function readConfig(host: GitHost, folder: HeldFolder, name: string): Promise<ReadonlyMap<string, string>> {
  const stdin = await folder.readFile(name, SMALL_FILE_BYTES);
  if (stdin === null || stdin.length === 0) return new Map();
  const args = ['config', '--file', '-', '--no-includes', '--null', '--list'];
  const text = await readGitText(host, args, { stdin }).catch((error: unknown) => {
    throw error instanceof GitError && error.reason === 'failed'
      ? new WorkspaceProblem(`git cannot read ${folder.placeOf(name)}: ${error.detail}`)
      : error;
  });
  const records = text.split('\0').filter((record) => record !== '');
  return new Map(
    records.map((record) => {
      const end = record.indexOf('\n');
      // A key without a value is true.
      return end === -1 ? [record, 'true'] : [record.slice(0, end), record.slice(end + 1)];
    }),
  );
}

function isTrue(value: string | undefined): boolean {
  return (
    value !== undefined && (/^(true|yes|on)$/i.test(value) || Number(value) !== 0) && !/^(false|no|off)$/i.test(value)
  );
}

async function resolveFolder(from: string, path: string): Promise<string | null> {
  return await realpath(resolve(from, path)).catch(() => null);
}

/**
 * Returns true for a `.git` inside the folder, and for one whose `gitdir` names the folder, as in a linked working
 * tree.
 */
async function isOwnGitDir(
  top: HeldFolder,
  gitDir: HeldFolder,
  commonDir: HeldFolder,
  isTopItself: boolean,
): Promise<boolean> {
  if (gitDir === commonDir) return isTopItself || gitDir.path === join(top.path, '.git');
  if (dirname(gitDir.path) !== join(commonDir.path, 'worktrees')) return false;
  const named = await gitDir.readFile('gitdir', PATH_BYTES);
  if (named === null) return false;
  const path = resolve(gitDir.path, withoutLineEnd(named));
  return basename(path) === '.git' && (await resolveFolder('/', dirname(path))) === top.path;
}
