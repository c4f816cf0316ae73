/** How the tests of the folder run, as far as the `dev` image can run them. */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { FileRefusal, readFileWithin } from '../../files/open-file.ts';

/** The author of a cloned project writes these files; larger ones are not read. */
const MOST_BYTES = 1024 * 1024;

/** The command of the tests of a git repository; null for another folder, or if no known command is found. */
export function findTestCommand(folder: string): string | null {
  if (!existsSync(join(folder, '.git'))) return null;
  if (statSync(join(folder, 'test.sh'), { throwIfNoEntry: false })?.isFile() === true) return 'sh ./test.sh';
  if (/^test:/m.test(readText(folder, 'Makefile'))) return 'make test';
  return findNodeTest(folder) ?? findPythonTest(folder);
}

/** Without packages: the image has Node without npm, and a workspace has no `node_modules`. */
function findNodeTest(folder: string): string | null {
  let manifest: unknown;
  try {
    manifest = JSON.parse(readText(folder, 'package.json'));
  } catch {
    return null;
  }
  if (typeof manifest !== 'object' || manifest === null) return null;
  const { scripts, dependencies, devDependencies } = manifest as Readonly<Record<string, unknown>>;
  if (hasEntries(dependencies) || hasEntries(devDependencies)) return null;
  const test: unknown = typeof scripts === 'object' && scripts !== null ? (scripts as { test?: unknown }).test : null;
  // In a spec, `${{` begins a placeholder.
  return typeof test === 'string' && /^node [ -~]{1,200}$/.test(test) && !test.includes('${{') ? test : null;
}

function hasEntries(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length > 0;
}

function findPythonTest(folder: string): string | null {
  const names = ['.', 'tests', 'test'].flatMap((each) => listNames(join(folder, each)).map((name) => [each, name]));
  const found = names.find(([, name]) => /^test_\w+\.py$/.test(name!));
  if (found === undefined) return null;
  return found[0] === '.' ? 'python3 -m unittest' : `python3 -m unittest discover ${found[0]}`;
}

function listNames(folder: string): readonly string[] {
  try {
    return readdirSync(folder).toSorted();
  } catch {
    return [];
  }
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
