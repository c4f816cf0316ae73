import { expect, test } from 'vitest';
import { EVENT_ID, lastNumber } from './event-id.ts';

test('ids of events keep their format', () => {
  expect([
    EVENT_ID.runAdmitted,
    EVENT_ID.runFinished,
    EVENT_ID.runResumed('host-1'),
    EVENT_ID.runRestored(12),
    EVENT_ID.scopeRestarted('box', 2),
    EVENT_ID.scopeBegunAgain('box', 0),
    EVENT_ID.releaseFailed('box', 0),
    EVENT_ID.stray(1),
    EVENT_ID.vm('run/box/0', 'ready'),
    EVENT_ID.attempt('build/0/1', 'finished'),
    EVENT_ID.attempt('build/0/1', 'failed'),
    EVENT_ID.reattached('build/0/1', 'run/box/0', 3),
    EVENT_ID.skipped('build', 1),
    EVENT_ID.skipped('build', 2),
    EVENT_ID.output('build/0/1', 'stderr', 65_536),
  ]).toEqual([
    'run/admitted',
    'run/finished',
    'run/resumed/host-1',
    'run/restored/12',
    'run/scope-restarted/box/2',
    'run/scope-begun-again/box/0',
    'run/release-failed/box/0',
    'run/stray/1',
    'vm/run/box/0/ready',
    'stage/build/0/1/finished',
    'stage/build/0/1/failed',
    'stage/build/0/1/reattached/run/box/0/3',
    'stage/build/skipped',
    'stage/build/skipped/2',
    'exec/build/0/1/stderr/65536',
  ]);
});

test.each<[string, number]>([
  ['run/scope-restarted/box/12', 12],
  ['run/scope-restarted/box/', Number.NaN],
  ['run/scope-restarted/box/-1', Number.NaN],
  ['run/scope-restarted/box/1e3', Number.NaN],
])('%j ends in %d', (id, number) => {
  expect(lastNumber(id)).toBe(number);
});
