/** Names the code on disk, so that a client notices a stack that still runs older code. */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';

/** The programs of the stack. A build writes them after everything else, so their times change with any of its code. */
const BUNDLES = ['worker-bundle', 'api-bundle', 'stack-bundle'];

export function buildId(packageRoot: string): string {
  const { version } = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')) as { version: string };
  const hash = createHash('sha256');
  const dist = join(packageRoot, 'dist');
  for (const file of [
    join(dist, 'workflow-bundle.js'),
    ...BUNDLES.flatMap((folder) => scripts(join(dist, folder))),
  ].sort()) {
    const found = statSync(file, { throwIfNoEntry: false });
    if (found !== undefined) hash.update(`${relative(dist, file)} ${found.size} ${Math.floor(found.mtimeMs)}\n`);
  }
  return `${version}-${hash.digest('hex').slice(0, 12)}`;
}

function scripts(folder: string): string[] {
  return namesIn(folder)
    .filter((name) => name.endsWith('.cjs'))
    .map((name) => join(folder, name));
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}
