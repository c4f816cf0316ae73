/** Folders of ours: made before anything is put in them, so that one that can't be used is told by its variable. */
import { accessSync, constants, existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { SetupError } from './setup-error.ts';

export interface OwnFolder {
  /** Absolute. */
  readonly path: string;
  /** `state folder`, for the message. */
  readonly what: string;
  /** The variable that names another one. */
  readonly variable: string;
}

/** Makes the folder and those above it. @throws SetupError when it can't be made or written */
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
