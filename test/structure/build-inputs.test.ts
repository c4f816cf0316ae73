/** The files that the build checks to know whether it has something to do. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

test('the build is made again after a change of any folder that the command line or the worker consists of', () => {
  const root = new URL('../../', import.meta.url);
  const bootstrap = readFileSync(new URL('setup/bootstrap.mjs', root), 'utf8');
  const list = /const PRODUCT = \[([^\]]*)\]/.exec(bootstrap)![1]!;
  const folders = [...list.matchAll(/'([^']+)'/g)].map(([, folder]) => folder!);
  const referenced = (folder: string): readonly string[] => {
    const text = readFileSync(new URL(`${folder}/tsconfig.json`, root), 'utf8');
    return [...text.matchAll(/"path": "\.\.\/([^"/]+)/g)].map(([, name]) => name!);
  };
  for (const name of ['cli', 'workers'].flatMap(referenced)) expect(folders).toContain(name);
});
