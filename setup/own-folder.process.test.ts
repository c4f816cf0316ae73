import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { makeOwnFolder } from './own-folder.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-own-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const make = (path: string): void => makeOwnFolder({ path, what: 'state folder', variable: 'VOIDBOX_STATE_DIR' });

test('makes the folder and those above it for its user alone, and takes one that is there', () => {
  make(join(dir, 'a', 'b'));
  make(join(dir, 'a', 'b'));
  expect(statSync(join(dir, 'a', 'b')).mode & 0o777).toBe(0o700);
});

test('names the folder, the reason and the variable where it cannot be', () => {
  writeFileSync(join(dir, 'file'), '');
  for (const path of [join(dir, 'file'), join(dir, 'file', 'x')]) {
    expect(() => make(path)).toThrow(`The state folder ${path} cannot be used`);
  }
  expect(existsSync('/proc')).toBe(true);
  // Node's own recursive mkdir never comes back from here.
  expect(() => make('/proc/voidbox/state')).toThrow('ENOENT');
});
