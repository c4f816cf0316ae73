import { expect, test } from 'vitest';
import { makeVersion, WEBHOOK } from '../../test/conformance/deployments.ts';
import { compareVersions } from './compare-versions.ts';

const STAGES = [
  { id: 'fetch', hash: 'a' },
  { id: 'review', hash: 'b' },
];

test('everything of the first version is added', () => {
  expect(compareVersions(null, makeVersion('x', { stages: STAGES }))).toEqual({
    stages: { added: ['fetch', 'review'], removed: [], changed: [] },
    triggers: { added: ['push'], removed: [], changed: [] },
    others: [],
  });
});

test('stages, triggers, files and permissions that differ are named', () => {
  const before = makeVersion('x', { stages: STAGES, params: { n: '1' } });
  const after = makeVersion('x', {
    stages: [
      { id: 'review', hash: 'c' },
      { id: 'report', hash: 'd' },
    ],
    triggers: [
      { ...WEBHOOK, when: 'input.ok' },
      { ...WEBHOOK, name: 'tag' },
    ],
    params: { n: '2' },
    bundles: { '.': 'f'.repeat(64) },
    allowGit: ['example.com/a'],
  });
  expect(compareVersions(before, after)).toEqual({
    stages: { added: ['report'], removed: ['fetch'], changed: ['review'] },
    triggers: { added: ['tag'], removed: [], changed: ['push'] },
    others: ['files', 'params', 'allowGit'],
  });
});

test('the order of keys is no change', () => {
  const one = makeVersion('x', { params: { a: '1', b: '2' } });
  const other = makeVersion('x', { params: { b: '2', a: '1' } });
  expect(compareVersions(one, other).others).toEqual([]);
});
