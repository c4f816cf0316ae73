import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readEnvironment } from '../environment.ts';
import { readHostSystem } from '../machine/host-system.ts';
import { searchPackages } from './apt.ts';
import type { SetupContext } from './piece.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'voidbox-apt-'));
  mkdirSync(join(folder, 'bin'));
  putProgram('apt-get', 'exit 0');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function putProgram(name: string, script: string): void {
  const path = join(folder, 'bin', name);
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
}

function search(): Promise<string[]> {
  const context: SetupContext = {
    env: readEnvironment({ HOME: folder, PATH: join(folder, 'bin'), VOIDBOX_CACHE_DIR: join(folder, 'cache') }),
    system: readHostSystem(),
    packageRoot: folder,
    kernelKind: 'debian',
    progress: () => undefined,
    need: () => Promise.reject(new Error('not asked for')),
  };
  return searchPackages(context, '^linux-');
}

test('a search returns the names of packages', async () => {
  putProgram('apt-cache', 'echo "linux-a - the one"; echo "linux-b - the other"');
  expect(await search()).toEqual(['linux-a', 'linux-b']);
});

test('a search that apt refuses is an error with the words of apt', async () => {
  putProgram('apt-cache', 'echo "E: The list of sources could not be read." >&2; exit 100');
  await expect(search()).rejects.toThrow('The list of sources could not be read.');
});
