/**
 * The keys that encrypt secrets of deployments. They are in a file that only its user can read: `VOIDBOX_SECRETS_KEY_FILE`
 * names it, or the service of the embedded stack makes it in the state folder.
 */
import { createHash, createSecretKey, type KeyObject, randomBytes } from 'node:crypto';
import { type BigIntStats, closeSync, fsyncSync, linkSync, lstatSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { FileRefusal, openFile } from '../../files/open-file.ts';
import type { Environment } from '../../setup/environment.ts';
import { nameHalfFile } from '../../store/half-files.ts';
import { AppError } from '../app-error.ts';

const KEY_BYTES = 32;
/** The most keys of a file. */
export const MOST_SECRET_KEYS = 16;
const MOST_FILE_BYTES = 16 * 1024;
const FOREIGN_ACCESS = 0o077;
const KEY_ID_CHARACTERS = 16;
const HEX = /^[0-9a-fA-F]{64}$/;
const BASE64 = /^[A-Za-z0-9+/]{43}=$/;
const COMMAND = '(umask 077; openssl rand -base64 32 > FILE)';

/** Printing it shows no byte of the key. */
export interface SecretKey {
  /** The same for the same key on every machine; it tells nothing else about the key. */
  readonly id: string;
  readonly key: KeyObject;
}

export interface SecretKeys {
  /** The first one encrypts, and each of them decrypts. At least one. */
  readonly keys: readonly SecretKey[];
  /** The path of the file. */
  readonly file: string;
}

/** The file of the keys. `isOwn`: the service may make it. */
export interface SecretKeyFile {
  readonly path: string;
  readonly isOwn: boolean;
}

/**
 * Returns the file that this machine uses, whether or not it exists.
 * @throws AppError `api/secrets-key` with your own database, whose services need one key
 */
export function findSecretKeyFile({
  stateDir,
  secretsKeyFile,
  database,
}: Pick<Environment, 'stateDir' | 'secretsKeyFile' | 'database'>): SecretKeyFile {
  if (secretsKeyFile !== null) return { path: secretsKeyFile, isOwn: false };
  if (database === null) return { path: join(stateDir, 'secrets.key'), isOwn: true };
  throw createKeyError(
    'secrets in your own database need a key of your own, and VOIDBOX_SECRETS_KEY_FILE is not set',
    `Make one, and set the variable where the service starts: ${COMMAND}; export VOIDBOX_SECRETS_KEY_FILE=FILE`,
  );
}

/** The last read of each file. */
const known = new Map<string, { readonly stamp: string; readonly keys: readonly SecretKey[] }>();
const MOST_KNOWN = 8;
/** A file that changes within a tick of the file system's clock has the same times before and after. */
const TICK_NS = 1_000_000_000n;

/**
 * Reads the keys. The owner may replace them at any time, so each use looks whether the file has changed.
 * @param uid  the user whose file it must be; root's file is accepted too
 * @returns null if the service may make the file, and there is no such file
 * @throws AppError `api/secrets-key`, which never contains a part of the file
 */
export async function readSecretKeys(
  { path, isOwn }: SecretKeyFile,
  uid: number | undefined = process.getuid?.(),
): Promise<SecretKeys | null> {
  const stamp = readStamp(path, uid);
  const last = known.get(path);
  if (stamp !== null && last?.stamp === stamp) return { file: path, keys: last.keys };
  known.delete(path);
  try {
    const { handle } = await openFile(path, { roots: null, mostBytes: MOST_FILE_BYTES });
    try {
      const { mode, uid: owner } = await handle.stat();
      refuseForeignFile(path, { mode, owner, uid });
      const keys = parseKeys(path, await handle.readFile('latin1'));
      if (stamp !== null && stamp === readStamp(path, uid) && known.size < MOST_KNOWN) known.set(path, { stamp, keys });
      return { file: path, keys };
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (!(error instanceof FileRefusal)) throw error;
    if (error.reason === 'missing' && isOwn) return null;
    throw createKeyError(
      `the file ${path} with the keys of secrets cannot be read: ${error.message}`,
      error.reason === 'missing'
        ? `Restore it. If there is no secret yet, make one: ${COMMAND.replace('FILE', path)}`
        : 'Name a regular file that the user of the service can read: VOIDBOX_SECRETS_KEY_FILE.',
    );
  }
}

/** Returns a text that any change of the file, its owner or its mode changes. Null: the next change might not. */
function readStamp(path: string, uid: number | undefined): string | null {
  let found: BigIntStats;
  try {
    found = lstatSync(path, { bigint: true });
  } catch {
    // The read itself tells why.
    return null;
  }
  if (!found.isFile()) return null;
  const { dev, ino, size, mode, uid: owner, mtimeNs, ctimeNs } = found;
  if (BigInt(Date.now()) * 1_000_000n - ctimeNs < TICK_NS) return null;
  return [dev, ino, size, mode, owner, mtimeNs, ctimeNs, uid].join(' ');
}

/**
 * Makes the file with a new key, on the disk before its name exists. If another service has just made one, that one
 * stays.
 */
export async function makeSecretKeys(path: string): Promise<SecretKeys> {
  const half = nameHalfFile(path);
  try {
    const file = openSync(half, 'wx', 0o600);
    try {
      writeFileSync(file, `${randomBytes(KEY_BYTES).toString('base64')}\n`);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    // A link fails if the name exists; a rename would replace a key that has encrypted a value.
    linkUnlessMade(half, path);
  } finally {
    rmSync(half, { force: true });
  }
  syncFolder(dirname(path));
  const made = await readSecretKeys({ path, isOwn: false });
  if (made === null) throw new Error('a key file that was just made is missing');
  return made;
}

function linkUnlessMade(half: string, path: string): void {
  try {
    linkSync(half, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

function syncFolder(path: string): void {
  const folder = openSync(path, 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

function refuseForeignFile(
  path: string,
  { mode, owner, uid }: { readonly mode: number; readonly owner: number; readonly uid: number | undefined },
): void {
  if (owner !== uid && owner !== 0)
    throw createKeyError(
      `the file ${path} with the keys of secrets belongs to the user ${owner}, and only you may know them`,
      `Make new keys as the user ${uid ?? 'of the service'}: ${COMMAND.replace('FILE', path)}. Then set all secrets again.`,
    );
  if ((mode & FOREIGN_ACCESS) !== 0)
    throw createKeyError(
      `the file ${path} with the keys of secrets has the mode ${(mode & 0o777).toString(8)}, so other users can read or change it`,
      `Close it: chmod 600 ${path}. If others may have read it, put a new key on its first line, and run: voidbox secret rekey`,
    );
}

function parseKeys(path: string, text: string): readonly SecretKey[] {
  const refuse = (problem: string): never => {
    throw createKeyError(
      `the file ${path} with the keys of secrets ${problem}`,
      `Write a key on each line: 32 random bytes as base64 or as 64 hexadecimal digits, such as the output of \`openssl rand -base64 32\`.`,
    );
  };
  const keys: SecretKey[] = [];
  for (const [index, line] of text.split('\n').entries()) {
    const trimmed = line.trim();
    if (trimmed === '') continue;
    const bytes = decodeKey(trimmed);
    // The line may be a key with a mistake, so no message contains it.
    if (bytes === null) return refuse(`has no key on line ${index + 1}`);
    const key = { id: createKeyId(bytes), key: createSecretKey(bytes) };
    if (keys.some(({ id }) => id === key.id)) return refuse(`has the key of line ${index + 1} twice`);
    keys.push(key);
  }
  if (keys.length === 0) return refuse('is empty');
  if (keys.length > MOST_SECRET_KEYS) return refuse(`has ${keys.length} keys; at most ${MOST_SECRET_KEYS} are read`);
  return keys;
}

function decodeKey(line: string): Buffer | null {
  if (HEX.test(line)) return Buffer.from(line, 'hex');
  if (!BASE64.test(line)) return null;
  const bytes = Buffer.from(line, 'base64');
  return bytes.length === KEY_BYTES ? bytes : null;
}

function createKeyId(bytes: Buffer): string {
  return createHash('sha256').update('voidbox secrets key\0').update(bytes).digest('hex').slice(0, KEY_ID_CHARACTERS);
}

export function createKeyError(message: string, remedy: string): AppError {
  return new AppError('environment', 'api/secrets-key', message, remedy);
}
