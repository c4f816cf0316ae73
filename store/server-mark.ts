/** Marks which servers' sessions use a folder and when they last used it. `prune` decides by these marks. */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface FolderUse {
  readonly servers: readonly string[];
  /** Milliseconds since the epoch; the folder's own time if it has no mark. */
  readonly lastMs: number;
}

const PREFIX = 'server-';

/** The folder must exist. */
export function markUse(folder: string, serverId: string): void {
  const name = createHash('sha256').update(serverId).digest('hex').slice(0, 16);
  writeFileSync(join(folder, PREFIX + name), serverId, { mode: 0o600 });
}

/** Null: there is no such folder. */
export function folderUse(folder: string): FolderUse | null {
  const found = statSync(folder, { throwIfNoEntry: false });
  if (found === undefined || !found.isDirectory()) return null;
  const marks = readdirSync(folder).filter((name) => name.startsWith(PREFIX));
  const times = marks.map((name) => statSync(join(folder, name), { throwIfNoEntry: false })?.mtimeMs ?? 0);
  return {
    servers: marks.map((name) => readFileSync(join(folder, name), 'utf8')),
    lastMs: Math.max(found.mtimeMs, ...times),
  };
}
