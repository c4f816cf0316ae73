/** Certificates of tests, with their keys. They end in the year 2126, and no product trusts them. */
import { chmodSync, copyFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { TlsFiles } from '../../../client/embedded/api-messages.ts';

export type PairName = 'first' | 'second';

const FOLDER = fileURLToPath(new URL('.', import.meta.url));

/** Copies a certificate for 127.0.0.1, ::1, localhost and api.example, and its key, which only its user can read. */
export function copyPair(name: PairName, folder: string): TlsFiles {
  const files = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') };
  copyFileSync(join(FOLDER, `${name}-cert.pem`), files.cert);
  copyFileSync(join(FOLDER, `${name}-key.pem`), files.key);
  chmodSync(files.key, 0o600);
  return files;
}

/** Reads the certificate, which clients of the pair trust. */
export function readCertificate(name: PairName): string {
  return readFileSync(join(FOLDER, `${name}-cert.pem`), 'utf8');
}
