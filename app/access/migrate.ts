/** Brings the schema of your own PostgreSQL server to this build. The embedded one migrates automatically. */
import { join } from 'node:path';
import type { Environment } from '../../setup/environment.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { migrateAccess, MIGRATIONS_FOLDER } from '../../store/open-access.ts';
import { createUsageError } from '../app-error.ts';
import { readDatabaseTarget } from './database-target.ts';

/**
 * @returns names of the changes that were made; none, if the schema was up to date
 * @throws AppError, CodedError `api/access-unavailable`, `host/disk-full`
 */
export async function migrateOwnDatabase(
  env: Environment,
  warn: (message: string) => void,
): Promise<readonly string[]> {
  const target = readDatabaseTarget(env);
  if (target === null)
    throw createUsageError(
      'neither DATABASE_URL nor DATABASE_URL_FILE is set',
      'Set one of them to migrate your own PostgreSQL server. The embedded one migrates when it is opened.',
    );
  return await migrateAccess({ target, migrationsDir: join(findPackageRoot(), ...MIGRATIONS_FOLDER), warn });
}
