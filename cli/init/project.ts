/** How the tests of the folder run: in the `dev` image, or, if they need packages, in an image with a package manager. */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { FileRefusal, readFileWithin } from '../../files/open-file.ts';

/** The author of a cloned project writes these files; larger ones are not read. */
const MOST_BYTES = 1024 * 1024;

export interface ProjectTests {
  /** One line that a shell runs in the repository. */
  readonly command: string;
  /** Null if the `dev` image can run the command. */
  readonly packages: PackageNeeds | null;
}

/** The `dev` image has neither npm nor pip, and a workspace has no installed packages. */
export interface PackageNeeds {
  /** One line that a shell runs before the command. */
  readonly install: string;
  readonly manager: 'npm' | 'pip';
  /** A public container image with the package manager and git. */
  readonly image: string;
  /** The preset of `egress` with the hosts of the registry. */
  readonly registry: 'npm' | 'pypi';
}

/** The tests of a git repository; null for another folder, or if no known tests are found. */
export function findTests(folder: string): ProjectTests | null {
  if (!isRepository(folder)) return null;
  if (isFile(folder, 'test.sh')) return { command: 'sh ./test.sh', packages: null };
  if (/^test:/m.test(readText(folder, 'Makefile'))) return { command: 'make test', packages: null };
  return findNodeTests(folder) ?? findPythonTests(folder);
}

export function isRepository(folder: string): boolean {
  return existsSync(join(folder, '.git'));
}

function findNodeTests(folder: string): ProjectTests | null {
  let manifest: unknown;
  try {
    manifest = JSON.parse(readText(folder, 'package.json'));
  } catch {
    return null;
  }
  if (typeof manifest !== 'object' || manifest === null) return null;
  const { scripts, dependencies, devDependencies } = manifest as Readonly<Record<string, unknown>>;
  const test: unknown = typeof scripts === 'object' && scripts !== null ? (scripts as { test?: unknown }).test : null;
  // `npm init` writes a script that only fails.
  if (typeof test !== 'string' || test === '' || test.includes('no test specified')) return null;
  if (hasEntries(dependencies) || hasEntries(devDependencies)) return findNpmTests(folder);
  // In a spec, `${{` begins a placeholder.
  return /^node [ -~]{1,200}$/.test(test) && !test.includes('${{') ? { command: test, packages: null } : null;
}

function hasEntries(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length > 0;
}

/** Null if another package manager has locked the packages. */
function findNpmTests(folder: string): ProjectTests | null {
  if (['pnpm-lock.yaml', 'yarn.lock', 'bun.lock', 'bun.lockb'].some((name) => isFile(folder, name))) return null;
  const install = isFile(folder, 'package-lock.json') ? 'npm ci' : 'npm install';
  return { command: 'npm test', packages: { install, manager: 'npm', image: 'node:22', registry: 'npm' } };
}

function findPythonTests(folder: string): ProjectTests | null {
  const names = ['.', 'tests', 'test'].flatMap((each) => listNames(join(folder, each)).map((name) => [each, name]));
  const found = names.filter(([, name]) => /^test_\w+\.py$/.test(name!));
  const isPytest =
    isFile(folder, 'pytest.ini') ||
    names.some(([, name]) => name === 'conftest.py') ||
    /^\[tool\.pytest/m.test(readText(folder, 'pyproject.toml')) ||
    found.some(([each, name]) => /^\s*(?:import|from) pytest\b/m.test(readText(folder, join(each!, name!))));
  const requirements = ['requirements-dev.txt', 'requirements.txt'].find((name) => isFile(folder, name));
  if (isPytest)
    return describePipTests('python3 -m pytest', `pytest${requirements === undefined ? '' : ` -r ${requirements}`}`);
  if (found.length === 0) return null;
  const command = found[0]![0] === '.' ? 'python3 -m unittest' : `python3 -m unittest discover ${found[0]![0]}`;
  return requirements === undefined ? { command, packages: null } : describePipTests(command, `-r ${requirements}`);
}

function describePipTests(command: string, packages: string): ProjectTests {
  const install = `python3 -m pip install ${packages}`;
  return { command, packages: { install, manager: 'pip', image: 'python:3.13', registry: 'pypi' } };
}

function listNames(folder: string): readonly string[] {
  try {
    return readdirSync(folder).toSorted();
  } catch {
    return [];
  }
}

function isFile(folder: string, name: string): boolean {
  return statSync(join(folder, name), { throwIfNoEntry: false })?.isFile() === true;
}

/** Empty for a file that is missing, or that is no regular file within the folder. */
function readText(folder: string, name: string): string {
  try {
    return readFileWithin(join(folder, name), { roots: [folder], mostBytes: MOST_BYTES }).toString('utf8');
  } catch (error) {
    if (error instanceof FileRefusal) return '';
    throw error;
  }
}
