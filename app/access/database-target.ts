/** The address of your own PostgreSQL server, which may have a password. */
import type { Environment } from '../../setup/environment.ts';
import { FileRefusal, readFileWithin } from '../../files/open-file.ts';
import type { AccessTarget } from '../../store/open-access.ts';
import { AppError } from '../app-error.ts';

const MOST_BYTES = 16_384;

/**
 * Reads the file, if a file is named, each time: its content may change.
 * @returns null for the embedded server
 * @throws AppError `host/not-ready`
 */
export function readDatabaseTarget({ database }: Pick<Environment, 'database'>): AccessTarget | null {
  if (database === null) return null;
  if (database.kind === 'url') return { kind: 'url', place: database.url };
  try {
    const text = readFileWithin(database.path, { roots: null, mostBytes: MOST_BYTES }).toString('utf8').trim();
    if (text !== '') return { kind: 'url', place: text };
    throw createFileError(database.path, 'it is empty');
  } catch (error) {
    if (error instanceof FileRefusal) throw createFileError(database.path, error.message);
    throw error;
  }
}

function createFileError(path: string, problem: string): AppError {
  return new AppError(
    'environment',
    'host/not-ready',
    `the file ${path} of DATABASE_URL_FILE has no address of a database: ${problem}`,
    'Write an address such as postgres://USER:PASSWORD@HOST/NAME into it, or unset DATABASE_URL_FILE.',
  );
}
