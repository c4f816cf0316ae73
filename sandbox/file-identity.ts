/** Identifies files without reading them. */
import { stat } from 'node:fs/promises';

/** @returns a text that is another one after a file was replaced or changed */
export async function identifyFiles(paths: readonly string[]): Promise<string> {
  const found = await Promise.all(paths.map((path) => stat(path, { bigint: true })));
  return found
    .map(({ dev, ino, size, mtimeNs }, index) => `${paths[index]} ${dev}:${ino} ${size} ${mtimeNs}`)
    .join('\n');
}
