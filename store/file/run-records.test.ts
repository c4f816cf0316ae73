import { mkdir, mkdtemp, readdir, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { RunRecords } from '../../activities/ports/run-records.ts';
import { RECORD_DEFAULTS } from '../../test/rig/runs/admissions.ts';
import { finishedEvent } from '../../test/conformance/store.ts';
import { nameHalfFile } from '../half-files.ts';
import { createFileEventLog } from './event-log.ts';
import { createFileHostMarks, createFileRunRecords } from './run-records.ts';

let dir: string;
let records: RunRecords;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'voidbox-records-'));
  records = createFileRunRecords(dir);
});
afterEach(() => rm(dir, { recursive: true, force: true }));

test('returns values, replaced as a whole, and null for a record that does not exist', async () => {
  expect(await records.get('r', 'plan')).toBeNull();
  await records.put('r', 'note', { version: 1, stages: ['a', 'b'] });
  await records.put('r', 'note', { version: 2 });
  expect(await createFileRunRecords(dir).get('r', 'note')).toEqual({ version: 2 });
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

test('keeps ids that could leave their folder, and long ones, in folders of their own', async () => {
  const ids = ['../r', '..', 'a/b', 'x'.repeat(1_000), `${'x'.repeat(999)}y`];
  for (const id of ids) await records.put(id, 'note', id);
  for (const id of ids) expect(await createFileRunRecords(dir).get(id, 'note')).toBe(id);
  expect((await readdir(dir)).sort()).toEqual(['runs', 'state-format']);
  expect(await readdir(join(dir, 'runs'))).toHaveLength(ids.length);
});

test.each(['', 'x'.repeat(1_001), '\udc00'])('refuses the run id %j', async (runId) => {
  await expect(async () => records.put(runId, 'note', 1)).rejects.toMatchObject({ code: 'store/io' });
});

test('never shows half a value to readers while writers work', async () => {
  const value = (index: number): number[] => Array.from({ length: 20_000 }, () => index);
  await records.put('r', 'x', value(0));
  let done = false;
  const writers = Promise.all(
    [1, 2, 3].map(async (index) => Promise.all([0, 1, 2].map(() => records.put('r', 'x', value(index))))),
  ).then(() => (done = true));
  while (!done) {
    const seen = (await records.get('r', 'x')) as number[];
    expect(seen.length).toBe(20_000);
    expect(new Set(seen).size).toBe(1);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await writers;
  expect(await readdir(join(dir, 'runs/r/records'))).toEqual(['x.json']);
});

test('the end of a run removes half files of killed processes, and a running writer makes its file again', async () => {
  const events = createFileEventLog(dir);
  await records.put('r', 'plan', {});
  await writeFile(nameHalfFile(join(dir, 'runs/r/records/plan.json')), '{"st');
  await writeFile(nameHalfFile(join(dir, 'runs/r/host-variables.json')), '{"TOKEN":"sec');
  const value = 'x'.repeat(1_000_000);
  const writes = Promise.all(Array.from({ length: 20 }, async (_, index) => records.put('r', `note-${index}`, value)));
  await events.append('r', [finishedEvent()]);
  await writes;
  for (let index = 0; index < 20; index++) expect(await records.get('r', `note-${index}`)).toBe(value);
  const left = (await readdir(join(dir, 'runs/r'), { recursive: true })).filter((name) => name.endsWith('.partial'));
  expect(left).toEqual([]);
  await events.close();
});

test('names the file whose content is not valid', async () => {
  await records.put('r', 'x', 1);
  await writeFile(join(dir, 'runs/r/records/x.json'), '{"half');
  await expect(records.get('r', 'x')).rejects.toMatchObject({
    code: 'store/damaged',
    message: expect.stringContaining('x.json'),
  });
});

test('the end of a run with a folder in the place of a half file is written', async () => {
  const events = createFileEventLog(dir);
  await records.put('r', 'plan', {});
  await mkdir(nameHalfFile(join(dir, 'runs/r/records/plan.json')));
  expect(await events.append('r', [finishedEvent()])).toBe(1);
  await events.close();
});

test('drops a record, also if it does not exist', async () => {
  await records.put('r', 'input', []);
  await records.drop('r', 'input');
  await records.drop('r', 'input');
  expect(await records.get('r', 'input')).toBeNull();
});

const PLAN = {
  version: 1,
  kind: 'workflow',
  name: 'p',
  stages: [{ id: 'a', work: { kind: 'command', program: 'ls' } }],
  scopes: [{ id: 'a' }],
  output: { kind: 'stage', stage: 'a' },
  maxParallel: 1,
  hostVariables: [],
};
const ADMISSION = { ...RECORD_DEFAULTS, plan: PLAN };

test.each([
  ['admission', ADMISSION],
  ['admission', { ...ADMISSION, aKeyOfALaterBuild: [1] }],
  ['plan', PLAN],
  ['client', { baseDir: '/x' }],
  ['manifest', { version: 1, refs: [] }],
  ['prepared-a/0/1', { generation: 0 }],
])('returns a record %s of the right shape', async (name, value) => {
  await records.put('r', name, value);
  expect(await records.get('r', name)).toEqual(value);
});

test.each([
  ['admission', [], 'admission is not an object'],
  ['admission', { ...ADMISSION, serverId: 5 }, 'admission.serverId is not a string'],
  [
    'admission',
    { ...ADMISSION, plan: { ...PLAN, stages: [{ id: 'a' }] } },
    'admission.plan.stages[0].work is not an object',
  ],
  ['admission', { ...ADMISSION, input: { kind: 'ref', ref: 'x' } }, 'admission.input.ref is not an object'],
  ['plan', { ...PLAN, scopes: {} }, 'plan.scopes is not a list'],
  ['client', { baseDir: ['/x'] }, 'client.baseDir is not a string'],
  [
    'manifest',
    { version: 1, refs: [{ sha256: 'x', sizeBytes: -1, mediaType: 'a/b' }] },
    'manifest.refs[0].sizeBytes is not a whole number from 0',
  ],
  ['prepared-a/0/1', { generation: '0' }, 'prepared-a/0/1.generation is not a whole number from 0'],
])('does not return a record %s of the wrong shape', async (name, value, problem) => {
  await records.put('r', name, value);
  await expect(records.get('r', name)).rejects.toMatchObject({
    code: 'store/damaged',
    message: expect.stringContaining(problem),
  });
});

test('a mark of a VM that a power cut has emptied counts as missing; any other damage is an error', async () => {
  const marks = createFileHostMarks(dir);
  expect(await marks.getOfVm('r', 'prepared-a/0/1')).toBeNull();
  await marks.putOfVm('r', 'prepared-a/0/1', { generation: 0, vmLife: 'x' });
  expect(await createFileHostMarks(dir).getOfVm('r', 'prepared-a/0/1')).toEqual({ generation: 0, vmLife: 'x' });
  const path = join(dir, 'runs/r/records/prepared-a%2F0%2F1.json');
  await truncate(path, 1);
  await expect(marks.getOfVm('r', 'prepared-a/0/1')).rejects.toMatchObject({ code: 'store/damaged' });
  await truncate(path, 0);
  expect(await marks.getOfVm('r', 'prepared-a/0/1')).toBeNull();
  await expect(marks.get('r', 'prepared-a/0/1')).rejects.toMatchObject({ code: 'store/damaged' });
});
