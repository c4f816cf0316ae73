/**
 * Changes of a guest onto the host. First everything is looked at: an entry that changed on the host too, or that the
 * host will not take, refuses the whole before anything is written. Then each change is one move.
 */
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { deepestFirst, nameOf, parentOf, removesFirst, removesFolder, type Change } from './changes.ts';
import { errno, isAbsent, type Folder, FolderPath, type Found } from './folder.ts';
import { isSameEntry, toPrintablePath, type Manifest, type MountEntry } from './manifest.ts';
import type { Staging } from './staging.ts';

/** Paths that a refusal names. */
const NAMED_PATHS = 5;

/** Why a copy back came to nothing, or to less than all. */
export interface Refusal {
  readonly code: 'stage/mount-conflict' | 'stage/mount-unwritable';
  readonly message: string;
}

/** A change that the host is to get, with what lay there when it was looked at. */
interface Checked {
  readonly change: Change;
  readonly identity: string;
}

export type CheckedChanges =
  | { readonly refusal: Refusal }
  | { readonly refusal: null; readonly todo: readonly Checked[] };

/** Looks at every entry that is to change. What is on the host already needs nothing. */
export async function checkChanges(
  root: Folder,
  changes: readonly Change[],
  before: Manifest,
): Promise<CheckedChanges> {
  const folders = new FolderPath(root);
  const coming = new Map(changes.map((change) => [change.path, change]));
  const device = (await root.facts()).dev;
  const conflicts: string[] = [];
  const todo: Checked[] = [];
  const seenParents = new Set<string>();
  try {
    for (const change of changes) {
      const parent = parentOf(change.path);
      const folder = await folders.at(parent);
      const found = await findEntry(folder, nameOf(change.path));
      if (isSame(found, change.to)) continue;
      if (!isSame(found, change.from)) {
        conflicts.push(change.path);
        continue;
      }
      if (folder === null && !isMade(coming, parent)) {
        // Where the folder went, there is no place for what the stage put into it.
        conflicts.push(parent);
        continue;
      }
      if (folder !== null && !seenParents.has(parent)) {
        seenParents.add(parent);
        const refusal = await findWriteRefusal(folder, parent, device);
        if (refusal !== null) return { refusal };
      }
      if (removesFolder(change) && found !== null) conflicts.push(...(await strangersIn(folders, change.path, before)));
      todo.push({ change, identity: await identityOf(folder, nameOf(change.path)) });
    }
  } finally {
    await folders.reset();
  }
  return conflicts.length === 0 ? { refusal: null, todo } : { refusal: conflict(conflicts) };
}

/** Carries checked changes out. What could not be done is told; the host then has what came before it. */
export async function applyChanges(
  root: Folder,
  todo: readonly Checked[],
  staged: ReadonlyMap<string, string>,
  staging: Staging,
): Promise<Refusal | null> {
  const folders = new FolderPath(root);
  const removals = todo.filter(({ change }) => removesFirst(change));
  const order = deepestFirst(removals.map(({ change }) => change));
  const identities = new Map(todo.map(({ change, identity }) => [change.path, identity]));
  let path = '';
  try {
    for (const change of order) {
      path = change.path;
      const folder = await folders.at(parentOf(path));
      if (folder === null) return conflict([path]);
      if ((await identityOf(folder, nameOf(path))) !== identities.get(path) && !removesFolder(change))
        return conflict([path]);
      if (removesFolder(change)) await folder.removeFolder(nameOf(path));
      else await folder.moveTo(nameOf(path), await staging.folder(), staging.newName());
    }
    await folders.reset();
    for (const { change } of todo) {
      if (change.to === null) continue;
      path = change.path;
      const folder = await folders.at(parentOf(path));
      if (folder === null) return conflict([path]);
      if (!removesFirst(change) && (await identityOf(folder, nameOf(path))) !== identities.get(path))
        return conflict([path]);
      await place(folder, nameOf(path), change, change.to, staged.get(path), staging);
    }
    return null;
  } catch (error) {
    if (!isOfTheHost(error)) throw error;
    return errno(error) === 'ENOTEMPTY' || errno(error) === 'EEXIST' || isAbsent(error)
      ? conflict([path])
      : createWriteRefusal(path, errno(error));
  } finally {
    await folders.reset();
  }
}

async function place(
  folder: Folder,
  name: string,
  change: Change,
  to: MountEntry,
  stagedName: string | undefined,
  staging: Staging,
): Promise<void> {
  switch (to.kind) {
    case 'dir': {
      if (change.from?.kind !== 'dir') await folder.makeFolder(name, 0o700);
      const made = await folder.child(name);
      try {
        await made.setMode(to.mode);
      } finally {
        await made.close();
      }
      return;
    }
    case 'link': {
      const own = await staging.folder();
      const made = staging.newName();
      await own.makeLink(made, to.target);
      return own.moveTo(made, folder, name);
    }
    case 'file': {
      if (stagedName === undefined)
        throw new Error(`the contents of ${toPrintablePath(change.path)} are not in the staging folder`);
      return (await staging.folder()).moveTo(stagedName, folder, name);
    }
  }
}

/** What lies there, without its contents: enough to see that it is what was looked at. */
async function identityOf(folder: Folder | null, name: string): Promise<string> {
  const stat = await folder?.stat(name);
  if (stat === null || stat === undefined) return 'absent';
  // A folder's size and times change with what is in it, and that has checks of its own.
  const contents = stat.isDirectory() ? '' : `:${stat.size}:${stat.mtimeNs}:${stat.ctimeNs}`;
  return `${stat.dev}:${stat.ino}:${stat.mode}${contents}`;
}

async function findEntry(folder: Folder | null, name: string): Promise<Found | null> {
  if (folder === null) return null;
  try {
    return await folder.look(name);
  } catch (error) {
    // It went between two looks, or cannot be read: then it is not what was captured.
    if (isAbsent(error)) return null;
    if (isOfTheHost(error) || errno(error) === 'ELOOP') return { kind: 'other' };
    throw error;
  }
}

function isSame(found: Found | null, entry: MountEntry | null): boolean {
  return found?.kind === 'other' ? false : isSameEntry(found, entry);
}

/** True for a folder that the changes make. */
function isMade(coming: ReadonlyMap<string, Change>, path: string): boolean {
  const change = coming.get(path);
  return change !== undefined && change.to?.kind === 'dir' && change.from?.kind !== 'dir';
}

/** What lies in a folder that is to go and was not there before. */
async function strangersIn(folders: FolderPath, path: string, before: Manifest): Promise<readonly string[]> {
  const folder = await folders.at(path);
  return folder === null
    ? []
    : (await folder.names()).map((name) => `${path}/${name}`).filter((inner) => !before.has(inner));
}

async function findWriteRefusal(folder: Folder, path: string, device: bigint): Promise<Refusal | null> {
  try {
    await access(folder.ownPath, constants.W_OK | constants.X_OK);
  } catch (error) {
    return createWriteRefusal(path, errno(error));
  }
  return (await folder.facts()).dev === device
    ? null
    : createWriteRefusal(path, 'EXDEV: it is another file system than the mounted folder');
}

/** Refusals that stay as they are when they are tried again; a full disk does not. */
const LASTING: ReadonlySet<string> = new Set([
  'EACCES',
  'EPERM',
  'EROFS',
  'EXDEV',
  'ENAMETOOLONG',
  'EINVAL',
  'ELOOP',
  'EISDIR',
  'EBUSY',
  'EMLINK',
  'ETXTBSY',
  'ENOTEMPTY',
  'EEXIST',
  'ENOENT',
  'ENOTDIR',
]);

function isOfTheHost(error: unknown): boolean {
  return LASTING.has(errno(error));
}

function conflict(paths: readonly string[]): Refusal {
  const unique = [...new Set(paths)].sort();
  const named = unique.slice(0, NAMED_PATHS).map((path) => (path === '' ? 'the folder itself' : toPrintablePath(path)));
  const more = unique.length > NAMED_PATHS ? ` and ${unique.length - NAMED_PATHS} more` : '';
  return {
    code: 'stage/mount-conflict',
    message: `${named.join(', ')}${more} also changed on the host since the stage's VM got it`,
  };
}

function createWriteRefusal(path: string, why: string): Refusal {
  return {
    code: 'stage/mount-unwritable',
    message: `${path === '' ? 'the folder itself' : toPrintablePath(path)} cannot be written on the host (${why})`,
  };
}
