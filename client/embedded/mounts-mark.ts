import { createHash } from 'node:crypto';
import { readAllowedMounts } from './allowed-mounts.ts';

/** Part of the build that a stack runs: with other folders, the worker is another one. */
export function mountsMark(stateDir: string): string {
  const folders = readAllowedMounts(stateDir);
  return folders.length === 0
    ? ''
    : `+mounts-${createHash('sha256').update(JSON.stringify(folders)).digest('hex').slice(0, 8)}`;
}
