/** Files of a cloned skill that lint and builds read: pipes in their place block no command. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { makeBlockingPipe, PIPE_ENDS_MS } from '../../test/rig/vms/blocking-pipe.ts';
import { contentOf } from '../lint/sources.ts';
import { copyTree } from './copy-tree.ts';
import { checkTarget } from './output-folder.ts';
import { readExistingPackage } from './package-json.ts';
import { packageVersionAbove } from './program.ts';

let dir: string;
let endPipe: () => void;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-hostile-skill-'));
});
afterEach(() => {
  endPipe();
  rmSync(dir, { recursive: true, force: true });
});

function told(read: () => unknown): string {
  try {
    return String(read());
  } catch (error) {
    return String(error);
  }
}

test.each<[string, string, () => unknown, RegExp]>([
  ['a source', 'index.ts', () => contentOf(join(dir, 'index.ts')), /^null$/],
  ['the package.json of the output', 'package.json', () => readExistingPackage(dir), /cannot be merged: it is a pipe/],
  ['the package.json above', 'package.json', () => packageVersionAbove(dir), /cannot be read, .*: it is a pipe/],
  ['SKILL.md of the output', 'SKILL.md', () => checkTarget(dir, false), /it is a pipe/],
  ['a reference', 'references', () => copyTree(join(dir, 'references'), join(dir, 'to')), /is not a file/],
])('%s that is a pipe is refused at once', (_what, name, read, message) => {
  endPipe = makeBlockingPipe(join(dir, name));
  writeFileSync(join(dir, 'other'), '');
  const startedMs = Date.now();
  expect(told(read)).toMatch(message);
  expect(Date.now() - startedMs).toBeLessThan(PIPE_ENDS_MS / 2);
});

test('a folder of references with a pipe is not copied', () => {
  mkdirSync(join(dir, 'references'));
  endPipe = makeBlockingPipe(join(dir, 'references/a.md'));
  expect(() => copyTree(join(dir, 'references'), join(dir, 'to'))).toThrow('is not a file');
});
