import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The version in the package's own package.json, which is one folder above `setup/`, or two above the folders of `dist/`. */
export function readVersion(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  for (let depth = 0; depth < 3; depth += 1) {
    folder = dirname(folder);
    const manifest = readManifest(join(folder, 'package.json'));
    if (manifest?.name === 'voidbox') return manifest.version;
  }
  throw new Error('the package.json of voidbox was not found above its code');
}

function readManifest(file: string): { readonly name: string; readonly version: string } | null {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as { name: string; version: string };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}
