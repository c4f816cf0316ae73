/** Reads which host a state folder belongs to. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isHostId } from '../../domain/run/host.ts';

export function hostIdFile(stateDir: string): string {
  return join(stateDir, 'host-id');
}

/** Reads the id from the file, which the host's worker creates; null if the file is missing or contains no id. */
export function readHostId(stateDir: string): string | null {
  try {
    const text = readFileSync(hostIdFile(stateDir), 'utf8').trim();
    return isHostId(text) ? text : null;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'EISDIR') return null;
    throw error;
  }
}
