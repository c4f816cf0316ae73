import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createFileRunRecords, type FileRunRecords } from './run-records.ts';

let dir: string;
let records: FileRunRecords;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'voidbox-records-'));
  records = createFileRunRecords(dir);
});
afterEach(() => rm(dir, { recursive: true, force: true }));

test('gives values back, replaced as a whole, and null for what is not there', async () => {
  expect(await records.get('r', 'plan')).toBeNull();
  await records.put('r', 'plan', { version: 1, stages: ['a', 'b'] });
  await records.put('r', 'plan', { version: 2 });
  expect(await createFileRunRecords(dir).get('r', 'plan')).toEqual({ version: 2 });
  expect(await records.get('other', 'plan')).toBeNull();
});

test('keeps names apart that file systems would mix up', async () => {
  const names = ['a/0/1', 'a', 'a%2F0%2F1', '..', '.', '../../x', 'Ä', 'with space', '*'];
  for (const name of names) await records.put('r', name, name);
  for (const name of names) expect(await records.get('r', name)).toBe(name);
  expect((await readdir(join(dir, 'runs/r/records'))).length).toBe(names.length);
  expect(await readdir(join(dir, 'runs'))).toEqual(['r']);
});

test.each(['', 'x'.repeat(221), '/'.repeat(100)])('refuses the name %j', async (name) => {
  await expect(records.put('r', name, 1)).rejects.toMatchObject({ code: 'store/io' });
});

test('refuses a run id that leaves its folder', async () => {
  await expect(async () => records.put('../r', 'plan', 1)).rejects.toMatchObject({ code: 'store/io' });
});

test('never shows half a value to readers beside writers', async () => {
  const value = (index: number): number[] => Array.from({ length: 20_000 }, () => index);
  await records.put('r', 'x', value(0));
  let done = false;
  const writers = Promise.all([1, 2, 3].map(async (index) => Promise.all([0, 1, 2].map(() => records.put('r', 'x', value(index)))))).then(() => (done = true));
  while (!done) {
    const seen = (await records.get('r', 'x')) as number[];
    expect(seen.length).toBe(20_000);
    expect(new Set(seen).size).toBe(1);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await writers;
  expect(await readdir(join(dir, 'runs/r/records'))).toEqual(['x.json']);
});

test('hands variables over in a private file until they are dropped', async () => {
  expect(await records.hostVariables('r')).toEqual({});
  await records.putHostVariables('r', { TOKEN: 'secret' });
  expect((await stat(join(dir, 'runs/r/host-variables.json'))).mode & 0o777).toBe(0o600);
  expect(await records.hostVariables('r')).toEqual({ TOKEN: 'secret' });
  await records.dropHostVariables('r');
  await records.dropHostVariables('r');
  expect(await records.hostVariables('r')).toEqual({});
  expect(await readdir(join(dir, 'runs/r'))).toEqual([]);
});

test('says which file does not hold what it should', async () => {
  await records.putHostVariables('r', {});
  await writeFile(join(dir, 'runs/r/host-variables.json'), '{"A": 1}');
  await expect(records.hostVariables('r')).rejects.toMatchObject({ code: 'store/io', message: expect.stringContaining('host-variables.json') });
  await records.put('r', 'x', 1);
  await writeFile(join(dir, 'runs/r/records/x.json'), '{"half');
  await expect(records.get('r', 'x')).rejects.toMatchObject({ code: 'store/io', message: expect.stringContaining('x.json') });
});
