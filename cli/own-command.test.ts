import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { writeOwnCommand } from './own-command.ts';

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-own-command-'));
  mkdirSync(join(dir, 'app/src'), { recursive: true });
  mkdirSync(join(dir, 'empty'));
  mkdirSync(join(dir, 'app/node_modules/.bin'), { recursive: true });
  writeFileSync(join(dir, 'app/node_modules/.bin/voidbox'), '');
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

test.each([
  ['without npm', false, 'empty', '/opt/voidbox', 'voidbox'],
  ['in the checkout', true, 'empty', '', 'npx voidbox'],
  ['below a folder that has installed it', true, 'app/src', '/opt/voidbox', 'npx voidbox'],
  ['in another folder', true, 'empty', '/opt/voidbox', 'npx /opt/voidbox'],
  ['in another folder, with a path for a shell', true, 'empty', '/opt/my box', "npx '/opt/my box'"],
])('a command is typed %s as it works there', (_where, isStartedByNpm, folder, root, expected) => {
  expect(writeOwnCommand(isStartedByNpm, join(dir, folder), root === '' ? dir : root)).toBe(expected);
});
