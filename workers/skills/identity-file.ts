/**
 * Stores the identity of a bundle beside it. To ask the bundle takes a process, and a starting worker needs the
 * identity of all its skills.
 */
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { findEnvProblems } from '../../domain/step-machine/skill-variables.ts';

export interface Identity {
  readonly name: string;
  readonly version: string;
  readonly env: readonly string[];
}

/**
 * Reads the identity; null if it was never written, or if a power cut left half of it. Then the bundle is asked again.
 */
export function readIdentity(bundle: string): Identity | null {
  try {
    const kept = JSON.parse(readFileSync(fileOf(bundle), 'utf8')) as Partial<Identity> | null;
    if (
      typeof kept?.name !== 'string' ||
      typeof kept.version !== 'string' ||
      findEnvProblems(kept.env ?? null).length > 0
    )
      return null;
    return { name: kept.name, version: kept.version, env: kept.env! };
  } catch (error) {
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === 'ENOENT') return null;
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
