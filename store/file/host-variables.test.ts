import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { HostVariables } from '../../activities/ports/host-variables.ts';
import { nameHalfFile } from '../half-files.ts';
import { createFileHostVariables } from './host-variables.ts';

let dir: string;
let variables: HostVariables;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'voidbox-variables-'));
  variables = createFileHostVariables(dir);
});
afterEach(() => rm(dir, { recursive: true, force: true }));

test('hands variables over in a private file until they are dropped', async () => {
  expect(await variables.get('r')).toEqual({});
  await variables.put('r', { TOKEN: 'secret' });
  expect((await stat(join(dir, 'runs/r/host-variables.json'))).mode & 0o777).toBe(0o600);
  expect(await variables.get('r')).toEqual({ TOKEN: 'secret' });
  await variables.drop('r');
  await variables.drop('r');
  expect(await variables.get('r')).toEqual({});
  expect(await readdir(join(dir, 'runs/r'))).toEqual([]);
});

test('drops half a file of variables that a killed process left', async () => {
  await variables.put('r', { TOKEN: 'secret' });
  await writeFile(nameHalfFile(join(dir, 'runs/r/host-variables.json')), '{"TOKEN":"sec');
  await variables.drop('r');
  expect(await readdir(join(dir, 'runs/r'))).toEqual([]);
});

test('names the file whose content is not valid', async () => {
  await variables.put('r', {});
  await writeFile(join(dir, 'runs/r/host-variables.json'), '{"A": 1}');
  await expect(variables.get('r')).rejects.toMatchObject({
    code: 'store/damaged',
    message: expect.stringContaining('host-variables.json'),
  });
});
