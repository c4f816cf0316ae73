/**
 * `state-format`: the number of the format of a state folder, on one line. It counts changes of the folder's contents,
 * not builds: builds of one format may use the folder by turns. It is written before anything else. So a folder with
 * contents and without a number is from a build that wrote no number.
 */
import {
  closeSync,
  fsyncSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { CodedError, isCodedError } from '../domain/errors/coded-error.ts';
import { remedyOf } from '../domain/errors/error-code.ts';
import { nameHalfFile, removeHalfFilesOf } from './half-files.ts';
import { FileRefusal, readFileWithin } from '../files/open-file.ts';

/** The format that this build reads and writes. */
export const STATE_FORMAT = 1;

const FILE = 'state-format';
const MOST_BYTES = 32;
/** Another process may remove the half file, once it has written the number itself. */
const MOST_TRIES = 5;

/**
 * The contents of a state folder that depend on its format. The lock, the logs and the stop mark of a stack do not
 * depend on it, and may be in a folder that has no number yet.
 */
export const STATE_CONTENTS: ReadonlySet<string> = new Set([
  'api.sock',
  'deployments',
  'applies',
  'artifacts',
  'ballast',
  'damaged',
  'git',
  'host-id',
  'held',
  'listen.json',
  'messages',
  'mounts.json',
  'sources.json',
  'notify.json',
  'postgres',
  'prepared',
  'prepared-merge.lock',
  'prepared-names',
  'runs',
  'secrets.key',
  'serve.lock',
  'serving',
  'sessions',
  'skills',
  'skills.json',
  'stack-ports.json',
  'stack.json',
  'triggers.json',
  'stack.sock',
  'temporal.db',
  'uploads',
  'vms',
]);

/** Null: the folder is absent, or holds nothing of Voidbox. */
type Finding = { readonly isOurs: true } | { readonly isOurs: false; readonly problem: string } | null;

/** Why this build does not use the folder; null: it does. */
export function findStateFormatProblem(stateDir: string): string | null {
  const found = inspectFormat(stateDir);
  return found === null || found.isOurs ? null : found.problem;
}

/**
 * For processes that only read the folder. An absent or empty folder stays as it is.
 * @throws CodedError `host/state-format`
 */
export function requireStateFormat(stateDir: string): void {
  const problem = findStateFormatProblem(stateDir);
  if (problem !== null) throw new CodedError('host/state-format', problem);
}

/**
 * For processes that write to the folder: gives an absent or empty folder its number.
 * @throws CodedError `host/state-format`, NodeJS.ErrnoException
 */
export function keepStateFormat(stateDir: string): void {
  for (let tries = 0; tries < MOST_TRIES; tries += 1) {
    const found = inspectFormat(stateDir);
    if (found !== null && !found.isOurs) throw new CodedError('host/state-format', found.problem);
    if (found !== null) return;
    writeNumber(stateDir);
  }
  throw new Error(`${join(stateDir, FILE)} is removed again and again while it is written`);
}

/**
 * For programs of others, which print only the message, so it includes the remedy.
 * @throws CodedError `host/state-format`
 */
export function keepStateFormatWithAdvice(stateDir: string): void {
  try {
    keepStateFormat(stateDir);
  } catch (error) {
    if (!isCodedError(error)) throw error;
    throw new CodedError(error.code, `${error.message}. ${remedyOf(error.code) ?? ''}`, { cause: error });
  }
}

function inspectFormat(stateDir: string): Finding {
  // Reads twice: between the two reads another process may have written the number, and then the contents.
  const found = readNumber(stateDir) ?? readContents(stateDir);
  return found === null || found.isOurs ? found : (readNumber(stateDir) ?? found);
}

function readNumber(stateDir: string): Finding {
  const file = join(stateDir, FILE);
  try {
    const stats = lstatSync(file, { throwIfNoEntry: false });
    if (stats === undefined) return null;
    if (stats.isSymbolicLink()) return createUnreadableFinding(stateDir, 'it is a link and no file');
    return judge(stateDir, readFileWithin(file, { roots: [stateDir], mostBytes: MOST_BYTES }));
  } catch (error) {
    if (error instanceof FileRefusal && error.reason === 'missing') return null;
    return createUnreadableFinding(stateDir, (error as Error).message);
  }
}

function judge(stateDir: string, bytes: Buffer): Finding {
  const number = /^(0|[1-9][0-9]{0,8})\n?$/.exec(bytes.toString('latin1'))?.[1];
  if (number === undefined) return createUnreadableFinding(stateDir, `its ${bytes.length} bytes are not a number`);
  if (Number(number) === STATE_FORMAT) return { isOurs: true };
  return createRefusal(`the state folder ${stateDir} has format ${number}`);
}

function readContents(stateDir: string): Finding {
  try {
    if (!namesIn(stateDir).some((name) => STATE_CONTENTS.has(name))) return null;
  } catch (error) {
    return createRefusal(`the state folder ${stateDir} cannot be read: ${(error as Error).message}`);
  }
  return createRefusal(`the state folder ${stateDir} has contents of Voidbox but no format number (${FILE})`);
}

function createUnreadableFinding(stateDir: string, why: string): Finding {
  return createRefusal(`the format number of the state folder ${stateDir} cannot be read from ${FILE}: ${why}`);
}

function createRefusal(what: string): Finding {
  return { isOurs: false, problem: `${what}; this build of Voidbox reads format ${STATE_FORMAT}` };
}

function namesIn(stateDir: string): readonly string[] {
  try {
    return readdirSync(stateDir);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return [];
    throw error;
  }
}

/** If two processes write at once, the number of the first stays, because a link fails if its name exists. */
function writeNumber(stateDir: string): void {
  mkdirSync(stateDir, { recursive: true, mode: 0o700 });
  const partial = nameHalfFile(join(stateDir, FILE));
  try {
    const fd = openSync(partial, 'wx', 0o600);
    try {
      writeFileSync(fd, `${STATE_FORMAT}\n`);
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    linkSync(partial, join(stateDir, FILE));
    syncFolder(stateDir);
    // Half files of killed processes, and of processes that write the number now; these find it written.
    removeHalfFilesOf(join(stateDir, FILE));
  } catch (error) {
    // ENOENT: another process has linked its number, and removed this one.
    if (!['EEXIST', 'ENOENT'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  } finally {
    rmSync(partial, { force: true });
  }
}

/** The number must be on the disk before anything that is written after it. */
function syncFolder(stateDir: string): void {
  const fd = openSync(stateDir, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
