/** `voidbox/client` runs in browsers: all that it loads is its own folder, and no part of it is of Node. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { rolldown } from 'rolldown';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';

const ROOT = findPackageRoot();

async function bundle(
  input: string,
): Promise<{ readonly imports: readonly string[]; readonly modules: readonly string[]; readonly code: string }> {
  const build = await rolldown({ input, platform: 'browser', external: /^node:/, logLevel: 'silent' });
  try {
    const { output } = await build.generate({ format: 'esm' });
    const [chunk] = output;
    return { imports: chunk.imports, modules: Object.keys(chunk.modules), code: chunk.code };
  } finally {
    await build.close();
  }
}

test('a bundle of `voidbox/client` for browsers has nothing of Node and nothing outside of its folder', async () => {
  const { imports, modules, code } = await bundle(join(ROOT, 'client-api/index.ts'));
  expect(imports).toEqual([]);
  expect(modules.length).toBeGreaterThan(5);
  expect(modules.filter((path) => !path.startsWith(join(ROOT, 'client-api/')))).toEqual([]);
  expect(code).not.toMatch(/\b(?:Buffer|process|require|setImmediate|__dirname)\b/);
  expect(code.length).toBeLessThan(64 * 1024);
});

test('an import of Node is found in a bundle', async () => {
  expect((await bundle(join(ROOT, 'files/find-repository.ts'))).imports).toContain('node:path');
});

test('the package exports the client for any platform', () => {
  const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    exports: Record<string, Record<string, string>>;
  };
  expect(exports['./client']).toEqual({
    types: './dist/client-api/index.d.ts',
    default: './dist/client-api/index.js',
  });
});
