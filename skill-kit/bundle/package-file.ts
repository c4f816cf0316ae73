import { readFileWithin } from '../../files/open-file.ts';

const MOST_PACKAGE_BYTES = 16 * 1024 * 1024;

/**
 * The JSON of a package.json, which may be of a cloned project.
 * @throws FileRefusal, SyntaxError
 */
export function readPackageFile(file: string): unknown {
  return JSON.parse(readFileWithin(file, { roots: null, mostBytes: MOST_PACKAGE_BYTES }).toString('utf8'));
}
