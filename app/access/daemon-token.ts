/**
 * The token of Void-Box's daemon: a text of the owner's own, which no database has. Its holder is a token caller, and
 * never the owner.
 */
import { DAEMON_TOKEN_NAME } from '../../domain/access/token-text.ts';
import type { DaemonTokenPlace } from '../../setup/daemon-settings.ts';
import { FileRefusal, openFile } from '../../files/open-file.ts';
import type { FoundToken } from '../../store/access.ts';
import { createUsageError } from '../app-error.ts';
import { hashToken } from './tokens.ts';

/** A shorter text could be guessed. */
const LEAST_CHARACTERS = 16;
const MOST_CHARACTERS = 1_000;
const TOKEN_TEXT = /^[\x21-\x7e]+$/;
const FOREIGN_ACCESS = 0o077;
const REMEDY = 'Make one: (umask 077; openssl rand -hex 32 > FILE), and name it by --token-file FILE.';

/**
 * Reads the token, and keeps only its hash.
 * @param uid  the user whose file it must be; root's file is accepted too
 * @returns SHA-256 in hexadecimal digits
 * @throws AppError, which never contains the text
 */
export async function readDaemonHash(
  place: DaemonTokenPlace,
  variable: string,
  uid: number | undefined = process.getuid?.(),
): Promise<string> {
  const text = (place.kind === 'text' ? place.text : await readTokenFile(place.path, variable, uid)).trim();
  const where = place.kind === 'text' ? variable : `${variable}: ${place.path}`;
  if (text.length < LEAST_CHARACTERS || text.length > MOST_CHARACTERS || !TOKEN_TEXT.test(text))
    throw createUsageError(
      `${where} has no token: a token has ${LEAST_CHARACTERS} to ${MOST_CHARACTERS} visible ASCII characters`,
      REMEDY,
    );
  return Buffer.from(hashToken(text)).toString('hex');
}

async function readTokenFile(path: string, variable: string, uid: number | undefined): Promise<string> {
  try {
    const { handle } = await openFile(path, { roots: null, mostBytes: MOST_CHARACTERS + 2 });
    try {
      const { mode, uid: owner } = await handle.stat();
      if (owner !== uid && owner !== 0)
        throw createUsageError(
          `${variable}: ${path} belongs to the user ${owner}, and only you may know the token`,
          REMEDY,
        );
      if ((mode & FOREIGN_ACCESS) !== 0)
        throw createUsageError(
          `${variable}: ${path} has the mode ${(mode & 0o777).toString(8)}, so other users can read or change the token`,
          `Make a new token, because others may have read it, and let only you read the file: chmod 600 FILE`,
        );
      return await handle.readFile('latin1');
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (error instanceof FileRefusal)
      throw createUsageError(`${variable}: ${path} cannot be read: ${error.message}`, REMEDY);
    throw error;
  }
}

/**
 * Returns what the holder may do: it reads, starts and cancels runs, and answers no approval.
 * @param hash  SHA-256 of the text, in hexadecimal digits
 */
export function createDaemonToken(hash: string, nowMs: number): FoundToken {
  return {
    name: DAEMON_TOKEN_NAME,
    scopes: ['run'],
    runs: [],
    groups: [],
    allowGit: [],
    createdAtMs: nowMs,
    expiresAtMs: null,
    lastUsedAtMs: null,
    revokedAtMs: null,
    hash: Buffer.from(hash, 'hex'),
  };
}
