import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { compileText } from '../../domain/language/load.ts';
import { makeCommandsSpec } from './runs.ts';
import { readSizesMib } from './snapshots.ts';

test('the spec of short commands has nothing unknown, and each command has a VM of its own', () => {
  const { plan, diagnostics } = compileText(makeCommandsSpec(10), 'bench.yaml', { baseDir: '/', params: {} });
  expect(diagnostics).toEqual([]);
  expect(plan!.stages).toHaveLength(10);
  expect(new Set(plan!.stages.map(({ scope }) => scope)).size).toBe(10);
});

test('a snapshot counts by its blocks on the disk, and one that is being made does not count', () => {
  const dir = mkdtempSync(join(tmpdir(), 'voidbox-bench-sizes-'));
  try {
    expect(readSizesMib(join(dir, 'absent')).size).toBe(0);
    for (const name of ['whole', '.new-half']) {
      mkdirSync(join(dir, name));
      writeFileSync(join(dir, name, 'snapshot.json'), JSON.stringify({ memoryMib: 256 }));
      writeFileSync(join(dir, name, 'state'), Buffer.alloc(3 << 20, 1));
    }
    const sizes = readSizesMib(dir);
    expect([...sizes.keys()]).toEqual([256]);
    expect(sizes.get(256)).toBeGreaterThanOrEqual(3);
    expect(sizes.get(256)).toBeLessThan(3.5);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});
