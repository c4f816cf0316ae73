/** The certificate of the HTTP API and its key: files that the owner of the stack names. */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import type { TlsFiles } from './api-messages.ts';

const MOST_BYTES = 1024 * 1024;
/** Write access of the group, and all access of others. */
const FOREIGN_ACCESS = 0o027;

export interface TlsTexts {
  readonly cert: string;
  readonly key: string;
}

/** @throws Error that names the file, if one cannot be read */
export function readTlsFiles({ cert, key }: TlsFiles): TlsTexts {
  return { cert: readPem(cert), key: readPem(key) };
}

function readPem(file: string): string {
  const found = statSync(file);
  // A pipe would make its reader wait.
  if (!found.isFile()) throw new Error(`${file} is not a file`);
  if (found.size > MOST_BYTES) throw new Error(`${file} has more than ${MOST_BYTES} bytes`);
  return readFileSync(file, 'utf8');
}

/** Returns a text that changes when one of the files is written or replaced. */
export function describeTlsState({ cert, key }: TlsFiles): string {
  const states = [cert, key].map((file) => {
    const found = statSync(file, { bigint: true, throwIfNoEntry: false });
    return found === undefined ? 'none' : `${found.dev}:${found.ino}:${found.size}:${found.mtimeNs}`;
  });
  return states.join();
}

/**
 * Checks the files before a listener uses them.
 * @returns warnings
 * @throws Error that names the file and what is wrong with it
 */
export function checkTlsFiles(files: TlsFiles, nowMs: number): readonly string[] {
  const texts = readTlsFiles(files);
  const { mode } = statSync(files.key);
  if ((mode & FOREIGN_ACCESS) !== 0)
    throw new Error(
      `${files.key} has the mode ${(mode & 0o777).toString(8)}, so other users can read or change the key`,
    );
  const certificate = parse(files.cert, 'certificate', () => new X509Certificate(texts.cert));
  const key = parse(files.key, 'private key without a passphrase', () => createPrivateKey(texts.key));
  if (!certificate.checkPrivateKey(key)) throw new Error(`${files.key} is not the key of ${files.cert}`);
  if (nowMs > Date.parse(certificate.validTo)) return [`${files.cert} has expired: ${certificate.validTo}`];
  if (nowMs < Date.parse(certificate.validFrom)) return [`${files.cert} is not valid before ${certificate.validFrom}`];
  return [];
}

function parse<T>(file: string, what: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new Error(`${file} is not a ${what}: ${(error as Error).message}`, { cause: error });
  }
}
