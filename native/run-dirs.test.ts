import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { listRunDirs, readEntry, readIntent, readVmKey, vmRunDir, writeEntry } from './run-dirs.ts';

const KEY = { runId: 'r', scope: 's', instance: [], generation: 0 };

let vms: string;

beforeEach(() => {
  vms = mkdtempSync(join(tmpdir(), 'voidbox-run-dirs-'));
});

afterEach(() => rmSync(vms, { recursive: true, force: true }));

function make(intent: string | null): string {
  const dir = vmRunDir(vms, KEY);
  mkdirSync(dir);
  if (intent !== null) writeFileSync(join(dir, 'intent.json'), intent);
  return dir;
}

test('a directory of a key is listed, and other entries of the folder are not', async () => {
  const dir = make(null);
  for (const name of ['notes', `${basename(dir)}.old`, basename(dir).toUpperCase()]) mkdirSync(join(vms, name));
  expect(await listRunDirs(vms)).toEqual([dir]);
});

test('a host that never had a VM has no run directories', async () => {
  expect(await listRunDirs(join(vms, 'absent'))).toEqual([]);
});

test('a folder that cannot be read is an error, not a host without VMs', async () => {
  writeFileSync(join(vms, 'file'), '');
  await expect(listRunDirs(join(vms, 'file'))).rejects.toMatchObject({ code: 'ENOTDIR' });
});

test('an intent is read with its key', async () => {
  const dir = make('{"vmKey":"r/s/0","memoryMib":256}');
  expect(await readIntent(dir)).toEqual({ vmKey: 'r/s/0', memoryMib: 256 });
  expect(await readVmKey(dir)).toBe('r/s/0');
});

test.each<[string, string | null]>([
  ['none', null],
  ['half of one', '{"vmKey":"r/'],
  ['a list', '["r/s/0"]'],
  ['one without a key', '{"vmKey":7}'],
])('%s says no key', async (_what, intent) => {
  expect(await readVmKey(make(intent))).toBeNull();
});

test('an entry is read as it was written, also twice, and another file is no entry', async () => {
  const dir = make(null);
  expect(await readEntry(dir)).toBeNull();
  for (const env of [{ PATH: '/bin' }, {}]) {
    await writeEntry(dir, { env });
    expect(await readEntry(dir)).toEqual({ env });
  }
  for (const text of ['', '[]', '{"env":1}', '{"env":{"A":1,"B":"b"}}']) {
    writeFileSync(join(dir, 'entry.json'), text);
    expect(await readEntry(dir)).toEqual(text.includes('"B"') ? { env: { B: 'b' } } : null);
  }
});
