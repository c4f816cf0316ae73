/** What a state folder says of the host that it belongs to. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isHostId } from '../../domain/run/host.ts';

export function hostIdFile(stateDir: string): string {
  return join(stateDir, 'host-id');
}

/** The id as the file has it; null where there is none, or something else. The worker of the host makes it. */
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
