import { expect, test } from 'vitest';
import { createDirectVmKey, directVmOf, isDirectVmId } from './direct-vm.ts';
import { parseVmKey, formatVmKey } from './vm-key.ts';

const ID = `sb-${'0a'.repeat(10)}`;
const note = { id: ID, name: 'mine', keepTtlMs: 60_000, launchedByPid: 7, launchedAtMs: 1, hasSecrets: true };

test('the key of a direct VM is the key of no run, whatever a client calls its run', () => {
  expect(parseVmKey(createDirectVmKey(ID))).toBeNull();
  for (const runId of ['direct', createDirectVmKey(ID), `direct/${ID}/vm/0`])
    expect(formatVmKey({ runId, scope: ID, instance: [], generation: 0 })).not.toBe(createDirectVmKey(ID));
});

test('the record in a run directory is read back', () => {
  expect(directVmOf({ vmKey: createDirectVmKey(ID), note })).toEqual(note);
  const bare = { id: ID, name: null, keepTtlMs: null, launchedByPid: 0, launchedAtMs: 0, hasSecrets: false };
  expect(directVmOf({ vmKey: createDirectVmKey(ID), note: { name: 1, keepTtlMs: 'x' } })).toEqual(bare);
});

test.each([
  ['a VM of a run', { vmKey: 'run/scope/0', note }],
  ['another id', { vmKey: 'direct/../x', note }],
  ['no note', { vmKey: createDirectVmKey(ID) }],
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
