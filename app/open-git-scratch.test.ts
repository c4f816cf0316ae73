import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { findStateFormatProblem } from '../store/state-format.ts';
import { openGitScratch } from './open-git-scratch.ts';

let stateDir = '';
beforeEach(() => {
  stateDir = join(mkdtempSync(join(tmpdir(), 'voidbox-scratch-')), 'state');
});
afterEach(() => rmSync(join(stateDir, '..'), { recursive: true, force: true }));

test('the first command that writes to a state folder leaves one that later commands accept', () => {
  expect(openGitScratch(stateDir)).toBe(join(stateDir, 'git'));
  expect(findStateFormatProblem(stateDir)).toBeNull();
});

test('a state folder of another format is refused and not written to', () => {
  mkdirSync(stateDir);
  writeFileSync(join(stateDir, 'state-format'), '2\n');
  expect(() => openGitScratch(stateDir)).toThrow('has format 2');
});
