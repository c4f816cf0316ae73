/** The pages that `explain` prints, by their names. */
import { existsSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { findPackageRoot } from '../../setup/package-root.ts';

const FOLDERS = ['docs/start', 'docs/guides', 'docs/explain'];
const PAGES = ['docs/troubleshooting.md', 'docs/upgrade.md'];

/** Paths of pages, relative to the package, by their names without `.md`. */
export function listGuides(root: string = findPackageRoot()): ReadonlyMap<string, string> {
  const paths = FOLDERS.filter((folder) => existsSync(join(root, folder))).flatMap((folder) =>
    readdirSync(join(root, folder))
      .filter((name) => name.endsWith('.md'))
      .toSorted()
      .map((name) => `${folder}/${name}`),
  );
  return new Map([...paths, ...PAGES].map((path) => [basename(path, '.md'), path]));
}
