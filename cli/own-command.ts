/** How the user of this process types a command of Voidbox again. */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { findPackageRoot } from '../setup/package-root.ts';
import type { TypedName } from './typed-name.ts';
import { quoteArgument } from '../domain/security/typed-argument.ts';

/**
 * `npx voidbox` only if npx finds this package from the working folder: elsewhere npx would ask a registry for that name.
 * @param isStartedByNpm  npx or a script of npm started this process
 */
export function writeOwnCommand(isStartedByNpm: boolean, cwd: string, root: string = findPackageRoot()): TypedName {
  if (!isStartedByNpm) return 'voidbox';
  for (let folder = cwd; ; folder = dirname(folder)) {
    if (folder === root || existsSync(join(folder, 'node_modules/.bin/voidbox'))) return 'npx voidbox';
    if (folder === dirname(folder)) return `npx ${quoteArgument(root)}`;
  }
}
