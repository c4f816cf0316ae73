/** Returns the folder of the package itself, in a checkout and in an installed package. */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export function findPackageRoot(from: string = import.meta.url): string {
  let folder = dirname(fileURLToPath(from));
  while (!existsSync(join(folder, 'package.json')) || !existsSync(join(folder, 'Cargo.toml'))) {
    const parent = dirname(folder);
    if (parent === folder)
      throw new Error(`no package.json beside a Cargo.toml above ${fileURLToPath(from)}: the package is incomplete`);
    folder = parent;
  }
  return folder;
}
