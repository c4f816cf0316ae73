import { existsSync } from 'node:fs';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type InstalledPackage, installPackage } from './rig/packed.ts';

describe('the package, installed from its tarball into an empty folder', () => {
  let installed: InstalledPackage;
  beforeAll(async () => {
    installed = await installPackage();
  }, 300_000);
  afterAll(() => installed.remove());

  it('answers --help', async () => {
    const result = await installed.voidbox(['--help']);
    expect(result.exitCode).toBe(0);
    expect(result.stdout).toContain('voidbox COMMAND');
  });

  it('validates a spec that it wrote itself', async () => {
    expect(await installed.voidbox(['init', 'first.yaml'])).toMatchObject({ exitCode: 0 });
    expect(await installed.voidbox(['validate', 'first.yaml'])).toMatchObject({ exitCode: 0 });
  });

  it('says what is wrong with a bad spec and exits with 2', async () => {
    await writeFile(join(installed.folder, 'bad.yaml'), 'api_version: v1\nkind: nonsense\nname: x\n');
    const result = await installed.voidbox(['validate', 'bad.yaml']);
    expect(result.exitCode).toBe(2);
    expect(result.stdout + result.stderr).toContain('bad.yaml:2:');
  });

  it('holds the Rust sources, the workflow bundle and the licence, and no tests', async () => {
    const root = join(installed.folder, 'node_modules', 'voidbox');
    for (const path of [
      'Cargo.lock',
      'guest/agent/src/main.rs',
      'native/keeper/src/main.rs',
      'guest/kernel/voidbox.config',
      'dist/workflow-bundle.js',
      'LICENSE',
    ]) {
      expect(existsSync(join(root, path)), path).toBe(true);
    }
    const files = await readdir(root, { recursive: true });
    expect(files.filter((file) => /\.test\.|\.tests\/|\/target\//.test(file) && !file.startsWith('node_modules'))).toEqual([]);
  });
});
