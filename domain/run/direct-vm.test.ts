import { expect, test } from 'vitest';
import { directVmKey, directVmOf, isDirectVmId } from './direct-vm.ts';
import { parseVmKey, vmKeyText } from './vm-key.ts';

const ID = `sb-${'0a'.repeat(10)}`;
const note = { id: ID, name: 'mine', keepTtlMs: 60_000, launchedByPid: 7, launchedAtMs: 1 };

test('the key of a direct VM is the key of no run, whatever a client calls its run', () => {
  expect(parseVmKey(directVmKey(ID))).toBeNull();
  for (const runId of ['direct', directVmKey(ID), `direct/${ID}/vm/0`])
    expect(vmKeyText({ runId, scope: ID, instance: [], generation: 0 })).not.toBe(directVmKey(ID));
});

test('the record in a run directory is read back', () => {
  expect(directVmOf({ vmKey: directVmKey(ID), note })).toEqual(note);
  const bare = { id: ID, name: null, keepTtlMs: null, launchedByPid: 0, launchedAtMs: 0 };
  expect(directVmOf({ vmKey: directVmKey(ID), note: { name: 1, keepTtlMs: 'x' } })).toEqual(bare);
});

test.each([
  ['a VM of a run', { vmKey: 'run/scope/0', note }],
  ['another id', { vmKey: 'direct/../x', note }],
  ['no note', { vmKey: directVmKey(ID) }],
  ['nothing', null],
])('%s is not a direct VM', (_, intent) => {
  expect(directVmOf(intent)).toBeNull();
});

test('an id has one shape', () => {
  expect([ID, 'sb-', `${ID}0`, ID.toUpperCase(), `${ID}\n`].map(isDirectVmId)).toEqual([
    true,
    false,
    false,
    false,
    false,
  ]);
});
