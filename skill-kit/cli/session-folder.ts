/** Finds the folder of session files, and checks which users can access it. */
import { lstatSync, mkdirSync, readdirSync, rmSync, statSync, type Stats } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { messageOf, UsageError } from './io.ts';
import { shorten } from '../../domain/units/quote.ts';

const SESSION_ID = /^[a-f0-9]{32}$/;

/** @throws {UsageError} for anything that could name another file */
export function checkSessionId(id: string): void {
  if (!SESSION_ID.test(id)) {
    throw new UsageError(
      `--session "${shorten(id)}" is not a session id: it must be the 32 characters of 0-9 and a-f that \`start --session new\` printed.`,
    );
  }
}

/**
 * Returns the folder after checking it. No other user may be able to create or rename a file in it; the files' own mode
 * decides who reads them. The default folder is below a folder that every user may write, so it must belong to this
 * user, have mode 0700 and not be a link. A folder that the client names may be readable by others, as folders in a
 * project are.
 * @param make  makes a folder that is missing; otherwise null is returned for it
 * @throws {Error} naming what is wrong with it
 */
export function sessionFolder(named: string | undefined, make: boolean): string | null {
  const folder = named ?? join(tmpdir(), 'skill-kit-sessions');
  if (make) makeFolder(folder);
  const facts = factsOf(folder, named === undefined);
  if (facts === null && make)
    throw new Error(`Refusing to use ${folder}: it is a broken link. Name another with --session-dir.`);
  if (facts === null) return null;
  if (!facts.isDirectory())
    throw new Error(`Refusing to use ${folder}: it is not a folder. Name another with --session-dir.`);
  const uid = process.getuid?.();
  if (uid === undefined) return folder;
  if (facts.uid !== uid)
    throw new Error(
      `Refusing to use ${folder}: owned by uid ${facts.uid}, expected ${uid}. Name another with --session-dir.`,
    );
  const mode = facts.mode & 0o777;
  if (named === undefined && mode !== 0o700) {
    throw new Error(
      `Refusing to use ${folder}: permissions are ${mode.toString(8)}, expected 700. Run \`chmod 700 ${folder}\`.`,
    );
  }
  if ((mode & 0o022) !== 0) {
    throw new Error(
      `Refusing to use ${folder}: permissions are ${mode.toString(8)}, so others can write there. Run \`chmod go-w ${folder}\`.`,
    );
  }
  return folder;
}

function makeFolder(folder: string): void {
  try {
    makeWithParents(folder);
  } catch (cause) {
    throw new Error(`${folder} cannot be made: ${messageOf(cause)}. Name another with --session-dir.`, { cause });
  }
}

/**
 * Does not use Node's `recursive`, which never ends if a parent exists but accepts no folders, as /proc does. Other
 * code checks a folder that already exists.
 */
function makeWithParents(folder: string): void {
  const make = (): string | undefined => {
    try {
      mkdirSync(folder, { mode: 0o700 });
      return undefined;
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException;
      if (code === 'EEXIST' || code === 'ENOENT') return code;
      throw cause;
    }
  };
  if (make() !== 'ENOENT') return;
  const parent = dirname(folder);
  if (parent !== folder) makeWithParents(parent);
  if (make() === 'ENOENT') throw new Error(`ENOENT: ${parent} takes no folder`);
}

/** Does not follow a link at the default path, because another user may have created it. */
function factsOf(folder: string, isDefault: boolean): Stats | null {
  return (isDefault ? lstatSync : statSync)(folder, { throwIfNoEntry: false }) ?? null;
}

/** All files of a session are called `<base>.<something>`. */
export function basePath(folder: string, id: string): string {
  return join(folder, `skill-kit-${id}`);
}

/** Removes state and claims last, so that a process that opens the session during the removal finds that it is gone. */
export function removeSession(folder: string, id: string): void {
  const names = readdirSync(folder).filter((name) => name.startsWith(`skill-kit-${id}.`));
  const rank = (name: string): number => (name.endsWith('.jsonl') ? 0 : name.includes('.lock.') ? 2 : 1);
  for (const name of names.toSorted((a, b) => rank(a) - rank(b))) rmSync(join(folder, name), { force: true });
}
