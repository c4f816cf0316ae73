import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { readAllowedMounts, keepAllowedMounts } from './allowed-mounts.ts';
import { mountsMark } from './mounts-mark.ts';
import { makeStateFolder } from '../../test/rig/runs/state-folder.ts';

let stateDir: string;
beforeEach(() => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-allowed-mounts-'));
  onTestFinished(() => rmSync(stateDir, { recursive: true }));
});

test('new folders replace the old ones, and nested folders are dropped', () => {
  expect([readAllowedMounts(stateDir), mountsMark(stateDir)]).toEqual([[], '']);
  keepAllowedMounts(stateDir, ['/srv/data/in', '/srv', '/srv/data', '/srv', '/home/ada', '/srv-old']);
  expect(readAllowedMounts(stateDir)).toEqual(['/home/ada', '/srv', '/srv-old']);
  keepAllowedMounts(stateDir, []);
  expect([readAllowedMounts(stateDir), mountsMark(stateDir)]).toEqual([[], '']);
});

test('another permission is another worker; the same in another order is not', () => {
  keepAllowedMounts(stateDir, ['/b', '/a']);
  const mark = mountsMark(stateDir);
  expect(mark).toMatch(/^\+mounts-[0-9a-f]{8}$/);
  keepAllowedMounts(stateDir, ['/a', '/b', '/a/c']);
  expect(mountsMark(stateDir)).toBe(mark);
  keepAllowedMounts(stateDir, ['/a']);
  expect(mountsMark(stateDir)).not.toBe(mark);
});

test.each(['', '{', '[]', '{"folders":"/"}', '{"folders":["data"]}', '{"folders":[null]}'])(
  'a file that holds %j allows nothing silently: it is an error with the way out',
  (text) => {
    writeFileSync(join(makeStateFolder(stateDir), 'mounts.json'), text);
    expect(() => readAllowedMounts(stateDir)).toThrow(
      /mounts\.json, the host folders that runs may mount, cannot be used/,
    );
    expect(() => mountsMark(stateDir)).toThrow(/cannot be used/);
    keepAllowedMounts(stateDir, ['/srv']);
    expect(readAllowedMounts(stateDir)).toEqual(['/srv']);
  },
);
