/** Names the code on disk, so that a client notices a stack that still runs older code. */
import { createHash } from 'node:crypto';
import { type Dirent, readdirSync, readFileSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';

/** Code of these folders runs in the stack's processes; a change elsewhere needs no restart. */
const FOLDERS = [
  'agents',
  'domain',
  'git',
  'workflows',
  'activities',
  'sandbox',
  'native',
  'store',
  'tar',
  'client',
  'app',
  'server',
  'sdk',
  'skill-kit',
  'workers',
  'worker-bundle',
  'api-bundle',
  'stack-bundle',
  'setup',
];

export function buildId(packageRoot: string): string {
  const { version } = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')) as { version: string };
  const hash = createHash('sha256');
  const dist = join(packageRoot, 'dist');
  for (const file of [
    join(dist, 'workflow-bundle.js'),
    ...FOLDERS.flatMap((folder) => scripts(join(dist, folder))),
  ].sort()) {
    const found = statSync(file, { throwIfNoEntry: false });
    if (found !== undefined) hash.update(`${relative(dist, file)} ${found.size} ${Math.floor(found.mtimeMs)}\n`);
  }
  return `${version}-${hash.digest('hex').slice(0, 12)}`;
}

function scripts(folder: string): string[] {
  const found: string[] = [];
  for (const entry of readdirSafely(folder)) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) found.push(...scripts(path));
    else if (/\.c?js$/.test(entry.name) && !entry.name.includes('.test.')) found.push(path);
  }
  return found;
}

function readdirSafely(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}
