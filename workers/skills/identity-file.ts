/** What a bundle says of itself, kept beside it: to ask takes a process, and a worker that starts has all its skills to ask. */
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

export interface Identity {
  readonly name: string;
  readonly version: string;
}

/** Null when nobody has asked yet. */
export function readIdentity(bundle: string): Identity | null {
  try {
    return JSON.parse(readFileSync(fileOf(bundle), 'utf8')) as Identity;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

export function keepIdentity(bundle: string, identity: Identity): Identity {
  const file = fileOf(bundle);
  writeFileSync(`${file}.${process.pid}`, JSON.stringify(identity), { mode: 0o600 });
  renameSync(`${file}.${process.pid}`, file);
  return identity;
}

function fileOf(bundle: string): string {
  return join(dirname(bundle), 'identity.json');
}
