/**
 * New files that programs generate from others, such as `node_modules`; users seldom want them among the changes of a
 * stage.
 */
import type { ChangedFile } from './changed-files.ts';
import type { PrivateRepository } from './private-repository.ts';
import { type GitHost, readGitBytes } from './run-git.ts';

export interface BuildProduct {
  /** A folder, with a slash at its end, or a file. */
  readonly path: string;
  readonly files: number;
  /** Reasons to check files in it, each once. */
  readonly notable: readonly string[];
}

/** Folders that authors never write. */
const MADE: ReadonlySet<string> = new Set([
  '__pycache__',
  '.cache',
  '.eggs',
  '.gradle',
  '.mypy_cache',
  '.next',
  '.nox',
  '.npm',
  '.nuxt',
  '.nyc_output',
  '.parcel-cache',
  '.pytest_cache',
  '.ruff_cache',
  '.svelte-kit',
  '.terraform',
  '.tox',
  '.turbo',
  '.venv',
  'bower_components',
  'node_modules',
]);

/** Folders of builds that some authors write themselves: they count only if the repository did not have them. */
const OFTEN_MADE: ReadonlySet<string> = new Set([
  'bin',
  'build',
  'coverage',
  'dist',
  'htmlcov',
  'obj',
  'out',
  'target',
  'venv',
]);

const MADE_FILE = /(\.(pyc|pyo|class|o|obj|tsbuildinfo|swp)|^\.DS_Store|^\.coverage|^core\.\d+|^npm-debug\.log)$/;
const EGG_INFO = /\.egg-info$/;

/** The limit of ambiguous folders that are looked up in the repository; the others are judged by name. */
const MOST_LOOKED_UP = 200;

/** @param base  the commit that the stage started from */
export async function findBuildProducts(
  host: GitHost,
  repository: PrivateRepository,
  base: string,
  files: readonly ChangedFile[],
): Promise<readonly BuildProduct[]> {
  const added = files.filter(({ change }) => change === 'added');
  const unsure = new Set(added.flatMap(({ path }) => foldersOf(path).filter((folder) => isOftenMade(folder))));
  const had = await foldersIn(host, repository, base, [...unsure].slice(0, MOST_LOOKED_UP));
  const byPath = new Map<string, { files: number; notable: Set<string> }>();
  for (const { path, notable } of added) {
    const product = productOf(path, had);
    if (product === null) continue;
    const group = byPath.get(product) ?? { files: 0, notable: new Set() };
    group.files += 1;
    for (const why of notable) group.notable.add(why);
    byPath.set(product, group);
  }
  return [...byPath].map(([path, group]) => ({ path, files: group.files, notable: [...group.notable] }));
}

/** Reports whether a file belongs to one of the products. */
export function isInProduct({ path, change }: ChangedFile, products: ReadonlySet<string>): boolean {
  return change === 'added' && (products.has(path) || foldersOf(path).some((folder) => products.has(folder)));
}

/** Returns the outermost folder that is a product, otherwise the file if it is one; null if neither is. */
function productOf(path: string, had: ReadonlySet<string>): string | null {
  const folder = foldersOf(path).find((each) => {
    const name = nameOf(each);
    return MADE.has(name) || EGG_INFO.test(name) || (OFTEN_MADE.has(name) && !had.has(each));
  });
  if (folder !== undefined) return folder;
  return MADE_FILE.test(path.slice(path.lastIndexOf('/') + 1)) ? path : null;
}

/** Returns `a/` and `a/b/` for `a/b/c`, the outermost first. */
function foldersOf(path: string): readonly string[] {
  const folders: string[] = [];
  for (let at = path.indexOf('/'); at >= 0; at = path.indexOf('/', at + 1)) folders.push(path.slice(0, at + 1));
  return folders;
}

function nameOf(folder: string): string {
  return folder.slice(folder.lastIndexOf('/', folder.length - 2) + 1, -1);
}

function isOftenMade(folder: string): boolean {
  return OFTEN_MADE.has(nameOf(folder));
}

async function foldersIn(
  host: GitHost,
  { gitDir }: PrivateRepository,
  commit: string,
  folders: readonly string[],
): Promise<ReadonlySet<string>> {
  if (folders.length === 0) return new Set();
  const paths = folders.map((folder) => folder.slice(0, -1));
  const args = ['--literal-pathspecs', 'ls-tree', '-d', '-z', '--name-only', '--full-tree', commit, '--', ...paths];
  const listed = await readGitBytes(host, args, { env: { GIT_DIR: gitDir }, confined: true, mostBytes: LIST_BYTES });
  return new Set(
    listed
      .toString('utf8')
      .split('\0')
      .filter((name) => name !== '')
      .map((name) => `${name}/`),
  );
}

const LIST_BYTES = 4 * 1024 * 1024;
