/**
 * Makes Voidbox's own folders before anything is written to them, so that an error can name the variable of an unusable
 * folder.
 */
import { accessSync, constants, existsSync, lstatSync, mkdirSync, type Stats, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { SetupError } from '../setup-error.ts';

export interface OwnFolder {
  /** An absolute path. */
  readonly path: string;
  /** `state folder`, for the message. */
  readonly what: string;
  /** The variable that names another folder. */
  readonly variable: string;
}

/** The permission bits with which group and others may write. */
const WRITABLE_BY_OTHERS = 0o022;

/**
 * Rejects a folder that another user made or can write to, for example in /tmp: that user could replace the
 * programs that run from it.
 * @throws SetupError
 */
export function refuseForeignFolder({ path, what, variable }: OwnFolder): void {
  const why = explainForeign(path);
  if (why === null) return;
  throw new SetupError(
    `The ${what} ${path} cannot be used: ${why}, and so could replace what lies in it.`,
    why.startsWith('other users') ? `chmod go-w ${path}` : `Name another folder: export ${variable}=…`,
  );
}

/** @throws SetupError if the path exists and is not a folder */
export function refuseOtherThanFolder({ path, what, variable }: OwnFolder): void {
  const found = factsOf(path, statSync);
  if (found === null || found.isDirectory()) return;
  throw new SetupError(
    `The ${what} ${path} is a ${found.isFile() ? 'file' : 'special file'}, and a folder is needed.`,
    `Name a folder: export ${variable}=…`,
  );
}

/** @throws SetupError if a part of the path exists and is not a folder */
export function refuseBelowFile({ path, what, variable }: OwnFolder): void {
  for (let above = dirname(path); ; above = dirname(above)) {
    const found = factsOf(above, statSync);
    if (found !== null && !found.isDirectory())
      throw new SetupError(
        `The ${what} ${path} cannot be made: ${above} is a ${found.isFile() ? 'file' : 'special file'}.`,
        `Name another folder: export ${variable}=…`,
      );
    if (found !== null || dirname(above) === above) return;
  }
}

/**
 * Explains who else could change the folder; null if it does not exist, or if only this user and root can change it.
 */
function explainForeign(path: string): string | null {
  const uid = process.getuid?.();
  if (uid === undefined) return null;
  for (const look of [lstatSync, statSync]) {
    const found = factsOf(path, look);
    if (found === null) return null;
    if (found.uid !== uid && found.uid !== 0) return `another user (uid ${found.uid}) owns it and can write to it`;
    if (found.isDirectory() && (found.mode & WRITABLE_BY_OTHERS) !== 0) return 'other users can write to it';
  }
  return null;
}

/** Returns null also if this user may not read the path, because the later use of the folder reports that. */
function factsOf(path: string, look: typeof statSync): Stats | null {
  try {
    return look(path);
  } catch {
    return null;
  }
}

/** Makes the folder and its parents. @throws SetupError if it cannot be made or written, or belongs to another user */
export function makeOwnFolder({ path, what, variable }: OwnFolder): void {
  try {
    makeFolders(path);
    accessSync(path, constants.W_OK | constants.X_OK);
  } catch (error) {
    throw new SetupError(
      `The ${what} ${path} cannot be used: ${(error as Error).message}.`,
      `Fix it, or name another folder: export ${variable}=…`,
      {
        cause: error,
      },
    );
  }
  // This check follows the creation, because another user may have made the folder first.
  refuseForeignFolder({ path, what, variable });
}

/**
 * Makes one folder after the other: Node's `recursive` never ends if a file system returns ENOENT below an existing
 * folder, as /proc does.
 */
function makeFolders(path: string): void {
  if (existsSync(path)) {
    if (!statSync(path).isDirectory()) throw new Error('it is not a folder');
    return;
  }
  const parent = dirname(path);
  if (parent !== path) makeFolders(parent);
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    // Another process made it at the same time.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}
