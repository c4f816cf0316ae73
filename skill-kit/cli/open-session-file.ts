/** The files of a session are plain ones of its own. */
import { closeSync, constants, fstatSync, openSync } from 'node:fs';

const REMEDY = 'Start a new session with --session new.';

/**
 * Opens only regular files, because a link could lead to another user's file, and reading a pipe may wait for ever.
 * @param flags  of `open`
 * @returns its descriptor
 * @throws {Error} naming what it is instead; {NodeJS.ErrnoException} `ENOENT` if it does not exist, `EEXIST` with
 * O_EXCL
 */
export function openSessionFile(path: string, flags: number): number {
  let fd: number;
  try {
    // Without O_NONBLOCK, opening a pipe waits for its other end.
    fd = openSync(path, flags | constants.O_NOFOLLOW | constants.O_NONBLOCK, 0o600);
  } catch (cause) {
    const what = NO_FILE[(cause as NodeJS.ErrnoException).code ?? ''];
    throw what === undefined ? cause : new Error(`Refusing to use ${path}: it is ${what}. ${REMEDY}`, { cause });
  }
  if (fstatSync(fd).isFile()) return fd;
  closeSync(fd);
  throw new Error(`Refusing to use ${path}: it is not a file. ${REMEDY}`);
}

/** The file types that errors of `open` reveal: links, folders, and pipes without a reader. */
const NO_FILE: Readonly<Record<string, string>> = { ELOOP: 'a link', EISDIR: 'a folder', ENXIO: 'not a file' };
