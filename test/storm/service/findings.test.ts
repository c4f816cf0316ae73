import { expect, test } from 'vitest';
import { randomOf } from '../random.ts';
import { findKeyFaults, findListFaults, findReaderFaults, findRunFaults, type LoggedEvent } from './findings.ts';
import { planRound, type Strike, TARGETS } from './strikes.ts';

const LOG: readonly LoggedEvent[] = ['run-admitted', 'stage-started', 'run-finished'].map((type, at) => ({
  seq: at + 1,
  id: `e${at + 1}`,
  type,
}));

/** Reads the events with these `seq`, in this order. */
function read(...seqs: readonly number[]) {
  const events = seqs.map((seq) => ({ streamId: String(seq), seq, id: `e${seq}` }));
  return { events, state: 'succeeded', connections: 1 };
}

test('a reader that has each event once has no fault', () => {
  expect(findReaderFaults('r', read(1, 2, 3), LOG)).toEqual([]);
});

test('a missing, a doubled, a misplaced and an unknown event are faults', () => {
  expect(findReaderFaults('r', read(1, 3), LOG)).toEqual(['r: it has e2 0 times', 'r: its `seq` are 1 3']);
  expect(findReaderFaults('r', read(1, 2, 2, 3), LOG)).toEqual(['r: it has e2 2 times', 'r: its `seq` are 1 2 2 3']);
  expect(findReaderFaults('r', read(2, 1, 3), LOG)).toEqual(['r: its `seq` are 2 1 3']);
  expect(findReaderFaults('r', read(1, 2, 3, 4), LOG)).toEqual(['r: it has e4, which the log does not have']);
});

test('another state, and an id of the stream that is no `seq`, are faults', () => {
  expect(findReaderFaults('r', { ...read(1, 2, 3), state: 'failed' }, LOG)).toEqual(['r: the run is failed for it']);
  const events = read(1, 2, 3).events.map((event) => ({ ...event, streamId: event.seq === 2 ? '' : event.streamId }));
  expect(findReaderFaults('r', { ...read(), events }, LOG)).toEqual(['r: the event with `seq` 2 has the id ""']);
});

test('a key with two runs, a run that is admitted twice, and a run without a key are faults', () => {
  expect(findKeyFaults('k', ['a', 'a'])).toEqual([]);
  expect(findKeyFaults('k', ['a', 'b'])).toEqual(['the key k has the runs a, b']);
  expect(findRunFaults('a', LOG)).toEqual([]);
  expect(findRunFaults('a', [...LOG, LOG[0]!])).toEqual(['a: it has run-admitted 2 times']);
  expect(findListFaults(['a', 'b'], ['b', 'a'])).toEqual([]);
  expect(findListFaults(['a'], ['a', 'b'])).toEqual(['started a; the service lists a, b']);
});

test('five rounds kill each process while runs start and while readers follow them, whatever the seed is', () => {
  for (const seed of [1, 2, 3]) {
    const plans = [0, 1, 2, 3, 4].map((round) => planRound(round, randomOf(seed + round)));
    const targetsOf = (strikes: readonly Strike[]) => new Set(strikes.map(({ target }) => target));
    expect(targetsOf(plans.map(({ whileStarting }) => whileStarting))).toEqual(new Set(TARGETS));
    expect(targetsOf(plans.flatMap(({ whileFollowing }) => whileFollowing))).toEqual(new Set(TARGETS));
  }
});
