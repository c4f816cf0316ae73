import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readEnvironment } from '../environment.ts';
import { compareVersions, findOnPath } from './find-program.ts';

describe('compareVersions', () => {
  it.each([
    ['6.12.117+deb12', '6.12.99+deb12', 1],
    ['6.1.0-47', '6.1.0-9', 1],
    ['7.2', '7.2.0', 0],
    ['1.9.1', '1.10.0', -1],
    ['0.4', '0.8.0', -1],
  ])('orders %s and %s by their numbers', (left, right, sign) => {
    expect(Math.sign(compareVersions(left, right))).toBe(sign);
  });
});

describe('findOnPath', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'voidbox-path-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it('gives executable files in the order of PATH, and neither folders nor files without the right', () => {
    for (const name of ['a', 'b', 'c', 'd']) mkdirSync(join(folder, name));
    writeFileSync(join(folder, 'a', 'voidbox-test-tool'), '', { mode: 0o644 });
    mkdirSync(join(folder, 'b', 'voidbox-test-tool'));
    for (const name of ['d', 'c']) writeFileSync(join(folder, name, 'voidbox-test-tool'), '', { mode: 0o755 });
    const path = ['relative', ...['a', 'b', 'd', 'c'].map((name) => join(folder, name))].join(':');
    expect(findOnPath(readEnvironment({ PATH: path }), ['voidbox-test-tool'])).toEqual([
      join(folder, 'd', 'voidbox-test-tool'),
      join(folder, 'c', 'voidbox-test-tool'),
    ]);
  });
});
