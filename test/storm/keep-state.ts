/** Keeps the state folder of a round that found something. */
import { cpSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Rig } from '../e2e/rig.ts';

/** Sockets cannot be copied; the findings name them. */
export function keepState(rig: Rig): string {
  const folder = mkdtempSync(join(tmpdir(), 'voidbox-storm-'));
  cpSync(rig.specDir, folder, {
    recursive: true,
    filter: (path) =>
      !path.endsWith('.sock') && !path.endsWith('scratch.img') && !path.endsWith('filler') && !isDatabase(path),
  });
  return folder;
}

/** A database that runs deletes files while they are copied. */
function isDatabase(path: string): boolean {
  return path.endsWith('/state/postgres');
}
