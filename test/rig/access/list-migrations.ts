import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { findPackageRoot } from '../../../setup/package-root.ts';
import { MIGRATIONS_FOLDER } from '../../../store/open-access.ts';

/** Returns the names of the changes that this build makes to an empty database, in order. */
export function listMigrations(): readonly string[] {
  return readdirSync(join(findPackageRoot(), ...MIGRATIONS_FOLDER))
    .map((file) => file.replace(/\.sql$/, ''))
    .toSorted();
}
