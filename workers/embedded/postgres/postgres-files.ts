/**
 * The files of the embedded database in the state folder. Each function expects that the caller holds the lock of the
 * state folder.
 */
import {
  chmodSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { locateTokenDatabase } from '../../../client/embedded/token-database.ts';
import { readFileWithin } from '../../../files/open-file.ts';

/** The major version whose data this build reads and writes. */
const POSTGRES_MAJOR = 18;
/** Above the largest pid of Linux, so no process has it. */
const PID_OF_NONE = 4_194_305;
/** Both files that are read have some lines. */
const MOST_BYTES = 4_096;
/** In the jail, `initdb` looks for the name of its user. */
const PASSWD = 'voidbox:x:1000:1000::/:/bin/false\n';

export interface PostgresPaths {
  /** The folder that has the others. Only PostgreSQL and the supervisor use it. */
  readonly dir: string;
  readonly data: string;
  /** Data that `initdb` has not finished. */
  readonly unfinished: string;
  readonly socketDir: string;
  readonly passwd: string;
}

export function locatePostgres(stateDir: string): PostgresPaths {
  const dir = locateTokenDatabase(stateDir);
  return {
    dir,
    data: join(dir, 'data'),
    unfinished: join(dir, 'data.unfinished'),
    socketDir: join(dir, 'socket'),
    passwd: join(dir, 'passwd'),
  };
}

/**
 * Makes the folders, which only their owner may enter, and removes the sockets of earlier processes.
 * @throws Error if something else has a path of a folder
 */
export function prepareFolders({ dir, socketDir, passwd }: PostgresPaths): void {
  for (const folder of [dir, socketDir]) makePrivateFolder(folder);
  for (const name of readdirSync(socketDir)) rmSync(join(socketDir, name), { recursive: true, force: true });
  rmSync(passwd, { force: true });
  writeFileSync(passwd, PASSWD, { mode: 0o600, flag: 'wx' });
}

function makePrivateFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: 0o700 });
  const found = lstatSync(path);
  if (!found.isDirectory() || found.uid !== process.getuid?.())
    throw new Error(`${path} is not a folder of this user: move it away`);
  if ((found.mode & 0o777) !== 0o700) chmodSync(path, 0o700);
}

/**
 * Tells whether there is data. `initdb` makes it under another name, so data under its own name is complete.
 * @throws Error for data of another major version, and for a folder without a version
 */
export function findData({ data }: PostgresPaths): boolean {
  if (!existsSync(data)) return false;
  let version: string;
  try {
    version = readFileWithin(join(data, 'PG_VERSION'), { roots: [data], mostBytes: MOST_BYTES })
      .toString('utf8')
      .trim();
  } catch (error) {
    throw new Error(`${data} holds no data of PostgreSQL: ${(error as Error).message}. Move it away`, { cause: error });
  }
  if (version === String(POSTGRES_MAJOR)) return true;
  throw new Error(
    `${data} has data of PostgreSQL ${JSON.stringify(version)}, and this version of Voidbox reads ${POSTGRES_MAJOR}. Use the version of Voidbox that made it, or move it away; then all tokens must be created again`,
  );
}

/** Gives finished data its name. */
export function keepData({ dir, data, unfinished }: PostgresPaths): void {
  renameSync(unfinished, data);
  const folder = openSync(dir, 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

export function removeUnfinishedData({ unfinished }: PostgresPaths): void {
  rmSync(unfinished, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
}

/**
 * Replaces the pid in `postmaster.pid` by one that no process has. After a kill, another process may have the old pid,
 * and then PostgreSQL would not start. The file itself stays: by its other lines, PostgreSQL finds out whether processes
 * of the earlier server still use the data.
 */
export function forgetPid({ data }: PostgresPaths): void {
  const file = join(data, 'postmaster.pid');
  if (lstatSync(file, { throwIfNoEntry: false }) === undefined) return;
  const [, ...rest] = readFileWithin(file, { roots: [data], mostBytes: MOST_BYTES })
    .toString('utf8')
    .split('\n');
  const open = openSync(file, constants.O_WRONLY | constants.O_TRUNC | constants.O_NOFOLLOW);
  try {
    writeFileSync(open, [PID_OF_NONE, ...rest].join('\n'));
  } finally {
    closeSync(open);
  }
}
