/**
 * Applies changes of a guest to the host. First it checks every entry. If the host also changed an entry, or cannot
 * accept it, the whole copy is rejected before anything is written. Then each change is one move.
 */
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { deepestFirst, nameOf, parentOf, removesFirst, removesFolder, type Change } from './changes.ts';
import { errno, isAbsent, type Folder, FolderPath, type Found } from './folder.ts';
import { isSameEntry, toPrintablePath, type Manifest, type MountEntry } from './manifest.ts';
import type { Staging } from './staging.ts';

/** The number of paths that a refusal names. */
const NAMED_PATHS = 5;

/** The reason why a copy back wrote nothing, or only some of the changes. */
export interface Refusal {
  readonly code: 'stage/mount-conflict' | 'stage/mount-unwritable';
  readonly message: string;
}

/** A checked change for the host, with the identity of the current entry. */
interface Checked {
  readonly change: Change;
  readonly identity: string;
}

export type CheckedChanges =
  | { readonly refusal: Refusal }
  | { readonly refusal: null; readonly todo: readonly Checked[] };

/** Checks every changed entry. Changes that the host already has are left out. */
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
        // The folder was removed, so the stage's new entry has no place.
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

/** Applies checked changes. If a change fails, returns the reason; the host keeps the changes before it. */
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

/** Identifies an entry without reading its contents: enough to see whether it changed after the check. */
async function identityOf(folder: Folder | null, name: string): Promise<string> {
  const stat = await folder?.stat(name);
  if (stat === null || stat === undefined) return 'absent';
  // A folder's size and times change with its content, which is checked separately.
  const contents = stat.isDirectory() ? '' : `:${stat.size}:${stat.mtimeNs}:${stat.ctimeNs}`;
  return `${stat.dev}:${stat.ino}:${stat.mode}${contents}`;
}

async function findEntry(folder: Folder | null, name: string): Promise<Found | null> {
  if (folder === null) return null;
  try {
    return await folder.look(name);
  } catch (error) {
    // The entry disappeared between two calls, or cannot be read, so it differs from the captured entry.
    if (isAbsent(error)) return null;
    if (isOfTheHost(error) || errno(error) === 'ELOOP') return { kind: 'other' };
    throw error;
  }
}

function isSame(found: Found | null, entry: MountEntry | null): boolean {
  return found?.kind === 'other' ? false : isSameEntry(found, entry);
}

/** Returns true for a folder that the changes create. */
function isMade(coming: ReadonlyMap<string, Change>, path: string): boolean {
  const change = coming.get(path);
  return change !== undefined && change.to?.kind === 'dir' && change.from?.kind !== 'dir';
}

/** Lists entries of a folder that is to be removed, if they are not in `before`. */
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

/** Errors that a retry would not fix; a full disk is not among them. */
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
