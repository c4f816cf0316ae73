import { realpath } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';

/** The schema in the package, which tells editors the keys of specs. */
const SCHEMA = join('docs', 'spec.schema.json');

/**
 * The first line of a spec in a folder, which tells editors where its schema is. It is empty if the package is not
 * installed in a project around the folder. It never contains a path of this machine: a spec is copied to other
 * machines, and the cache of `npx` does not stay.
 *
 * @param root  the folder of this package
 */
export async function editorLine(folder: string, root: string): Promise<string> {
  const own = await realpath(join(root, SCHEMA)).catch(() => null);
  for (let place = folder; own !== null; place = dirname(place)) {
    const schema = join(place, 'node_modules', 'voidbox', SCHEMA);
    if ((await realpath(schema).catch(() => null)) === own)
      return `# yaml-language-server: $schema=${relative(folder, schema)}\n`;
    if (place === dirname(place)) break;
  }
  return '';
}
