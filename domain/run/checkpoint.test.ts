import { expect, test } from 'vitest';
import {
  isCheckpointName,
  listLinkFiles,
  nameLinkFiles,
  parseCheckpoint,
  type CheckpointRecord,
} from './checkpoint.ts';

const RECORD: CheckpointRecord = {
  v: 1,
  id: 'a'.repeat(64),
  name: 'node-deps',
  createdAtMs: 1_700_000_000_000,
  diskMib: 2048,
  usedBytes: 4096,
  vmm: 'qemu',
  root: null,
  kernelKind: 'debian',
  withSecrets: false,
  madeBy: { run: 'run', stage: 'stage' },
};

test('a record is read as it was written, with keys of other builds', () => {
  expect(parseCheckpoint(JSON.stringify(RECORD))).toEqual(RECORD);
  expect(parseCheckpoint(JSON.stringify({ ...RECORD, later: 1 }))).toMatchObject(RECORD);
  const links = ['0'.repeat(31) + '1', '0'.repeat(31) + '2'];
  const full = { ...RECORD, memory: { links, memoryMib: 512, vcpus: 1, hasMounts: false } };
  expect(parseCheckpoint(JSON.stringify(full))).toEqual(full);
  expect(listLinkFiles(full.memory)).toEqual([nameLinkFiles(0), nameLinkFiles(1)]);
  const merged = { ...RECORD, memory: { ...full.memory, links: links.slice(1), firstFile: 2 } };
  expect(parseCheckpoint(JSON.stringify(merged))).toEqual(merged);
  expect(listLinkFiles(merged.memory)).toEqual([{ state: 'state-2', memory: 'memory-2' }]);
  const bare = JSON.stringify({ ...RECORD, name: undefined, madeBy: undefined });
  expect(parseCheckpoint(bare)).toEqual(JSON.parse(bare));
});

test.each([
  [{ v: 2 }, 'the record.v is not 1'],
  [{ id: `../${'a'.repeat(61)}` }, 'the record.id is not 64 hexadecimal digits'],
  [{ name: '../x' }, 'the record.name is not a name of a checkpoint'],
  [{ diskMib: 0 }, 'the record.diskMib is 0'],
  [{ diskMib: 1.5 }, 'the record.diskMib is not a whole number from 0'],
  [{ withSecrets: 'no' }, 'the record.withSecrets is not true or false'],
  [{ root: 5 }, 'the record.root is not a string'],
  [
    { memory: { links: ['../state'], memoryMib: 512, vcpus: 1, hasMounts: false } },
    'the record.memory.links is not a list of 1 to 8 names of states',
  ],
  [
    { memory: { links: ['0'.repeat(32)], memoryMib: 512, vcpus: 1, hasMounts: false, firstFile: 9 } },
    'the record.memory.firstFile is more than 8',
  ],
  [
    { memory: { links: Array(9).fill('0'.repeat(32)), memoryMib: 512, vcpus: 1, hasMounts: false } },
    'the record.memory.links is not a list of 1 to 8 names of states',
  ],
  [{ madeBy: { run: 'run' } }, 'the record.madeBy.stage is not a string'],
])('a record with %j is refused with the field', (fields, problem) => {
  expect(parseCheckpoint(JSON.stringify({ ...RECORD, ...fields }))).toBe(problem);
});

test('half a record is refused', () => {
  expect(parseCheckpoint(JSON.stringify(RECORD).slice(0, 40))).toBe('it is not JSON');
  expect(parseCheckpoint('[]')).toBe('the record is not an object');
});

test('names are bounded, and are never a path, an option or a reserved word', () => {
  for (const name of ['a', 'node-deps', '1.2_x', 'A'.repeat(64)]) expect(isCheckpointName(name), name).toBe(true);
  for (const name of ['', '.', '..', '-x', 'a/b', 'a b', 'none', 'auto', 'off', 'A'.repeat(65), 'é', 'a\n'])
    expect(isCheckpointName(name), name).toBe(false);
});
