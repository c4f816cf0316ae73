import { expect, test } from 'vitest';
import {
  findDeliveryFaults,
  findRunFaults,
  findStrayFaults,
  type FoundRun,
  type ListedDelivery,
  type SentEvent,
} from './findings.ts';

const WHOLE: FoundRun = { types: ['run-admitted', 'run-finished'], state: 'succeeded', startedAtNs: 1n };

function makeRow(id: string, changes: Partial<ListedDelivery> = {}): ListedDelivery {
  return {
    id,
    trigger: 'ordered',
    state: 'started',
    runId: `storm-${id}`,
    runEndedAtMs: null,
    into: null,
    code: null,
    bodySha256: id,
    schedule: null,
    ...changes,
  };
}

function makeEvent(name: string, changes: Partial<SentEvent> = {}): SentEvent {
  return { name, trigger: 'ordered', bodySha256: name, orderKey: 'k', answered: [name], ...changes };
}

const DUPLICATE = { state: 'deduplicated', runId: null, into: 'a', bodySha256: 'a' };

test('a round in which each event has one run has no fault', () => {
  const rows = [makeRow('a'), makeRow('a2', DUPLICATE), makeRow('b', { state: 'merged', into: 'a', runId: null })];
  expect(findDeliveryFaults([makeEvent('a', { answered: ['a', 'a2'] }), makeEvent('b')], rows)).toEqual([]);
});

test('a lost, an open, a double and a refused delivery are faults', () => {
  expect(findDeliveryFaults([makeEvent('a')], [])).toEqual([
    'a: the accepted delivery a is lost',
    'a: 0 of its 0 deliveries are no duplicates',
  ]);
  expect(findDeliveryFaults([makeEvent('a')], [makeRow('a', { state: 'starting' })])).toEqual([
    'the delivery a is starting and has no outcome',
    'a: the delivery a is starting (null)',
  ]);
  expect(findDeliveryFaults([makeEvent('a')], [makeRow('a'), makeRow('c', { bodySha256: 'a' })])).toEqual([
    'a: 2 of its 2 deliveries are no duplicates',
  ]);
  expect(findDeliveryFaults([makeEvent('a')], [makeRow('a', { state: 'refused', code: 'api/bug' })])).toEqual([
    'a: the delivery a is refused (api/bug)',
  ]);
});

test('a delivery that no event explains is a fault', () => {
  expect(findStrayFaults([makeEvent('a')], [makeRow('a'), makeRow('half', { trigger: 'files' })])).toEqual([
    'the delivery half of files belongs to no event',
  ]);
});

test('a delivery that is merged into one without a run is a fault', () => {
  expect(findDeliveryFaults([makeEvent('a')], [makeRow('a', { state: 'merged', into: 'x', runId: null })])).toEqual([
    'a is merged into x, which has no run',
  ]);
});

test('a run that is absent, of no delivery, double or failed is a fault', () => {
  expect(findRunFaults([], [makeRow('a')], new Map())).toEqual(['a: its run storm-a does not exist']);
  expect(findRunFaults([], [], new Map([['storm-x', WHOLE]]))).toEqual(['the run storm-x belongs to no delivery']);
  const double = { ...WHOLE, types: ['run-admitted', 'run-admitted'], state: 'failed' };
  expect(findRunFaults([], [makeRow('a')], new Map([['storm-a', double]]))).toEqual([
    'storm-a: it has run-admitted 2 times',
    'storm-a: it has run-finished 0 times',
    'storm-a: it is failed',
  ]);
});

test('runs of a key that start in another order than their events were sent are a fault', () => {
  const [events, rows] = [
    [makeEvent('a'), makeEvent('b')],
    [makeRow('a'), makeRow('b')],
  ];
  const runs = (first: bigint, second: bigint): Map<string, FoundRun> =>
    new Map([
      ['storm-a', { ...WHOLE, startedAtNs: first }],
      ['storm-b', { ...WHOLE, startedAtNs: second }],
    ]);
  expect(findRunFaults(events, rows, runs(1n, 2n))).toEqual([]);
  expect(findRunFaults(events, rows, runs(2n, 1n))).toEqual(['the key k: sent a, b; started b, a']);
});
