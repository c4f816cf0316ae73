/** Folders of ours: made before anything is put in them, so that one that can't be used is told by its variable. */
import { accessSync, constants, existsSync, lstatSync, mkdirSync, type Stats, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { SetupError } from '../setup-error.ts';

export interface OwnFolder {
  /** Absolute. */
  readonly path: string;
  /** `state folder`, for the message. */
  readonly what: string;
  /** The variable that names another one. */
  readonly variable: string;
}

/** Group and others may write. */
const WRITABLE_BY_OTHERS = 0o022;

/**
 * A folder that another user made, as any user can in /tmp, or can write to: that user could replace the programs that run from it.
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

/** @throws SetupError for a path at which something else than a folder is */
export function refuseOtherThanFolder({ path, what, variable }: OwnFolder): void {
  const found = factsOf(path, statSync);
  if (found === null || found.isDirectory()) return;
  throw new SetupError(
    `The ${what} ${path} is a ${found.isFile() ? 'file' : 'special file'}, and a folder is needed.`,
    `Name a folder: export ${variable}=…`,
  );
}

/** @throws SetupError for a path that leads through something else than a folder */
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

/** Null where it is not there, and where nobody else but root can change it. */
function explainForeign(path: string): string | null {
  const uid = process.getuid?.();
  if (uid === undefined) return null;
  for (const look of [lstatSync, statSync]) {
    const found = factsOf(path, look);
    if (found === null) return null;
    if (found.uid !== uid && found.uid !== 0)
      return `it belongs to another user (uid ${found.uid}), who may write to it`;
    if (found.isDirectory() && (found.mode & WRITABLE_BY_OTHERS) !== 0) return 'other users may write to it';
  }
  return null;
}

/** Null also where this user may not look: who uses the folder is told so. */
function factsOf(path: string, look: typeof statSync): Stats | null {
  try {
    return look(path);
  } catch {
    return null;
  }
}

/** Makes the folder and those above it. @throws SetupError when it can't be made or written, or is another user's */
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
  // After it is made: another user may have made it first.
  refuseForeignFolder({ path, what, variable });
}

/** One after the other: Node's `recursive` never ends where a file system says ENOENT below a folder that is there, as /proc does. */
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
    // Another process made it meanwhile.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}
