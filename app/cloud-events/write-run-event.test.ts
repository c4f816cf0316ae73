import { CloudEvent, HTTP } from 'cloudevents';
import { expect, test } from 'vitest';
import { RUN_EVENT_STATES, type RunEventFacts, writeRunEvent } from './write-run-event.ts';

const FACTS: RunEventFacts = {
  id: 'build-01/failed',
  deployment: 'build',
  state: 'failed',
  runId: 'build-01',
  atMs: 1_795_996_352_123,
  traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`,
  data: { run: 'build-01', message: 'ü\0' },
};

/** Reads an event with the library of CloudEvents, which checks it. */
function read(facts: RunEventFacts): CloudEvent<unknown> {
  const { contentType, body } = writeRunEvent(facts);
  const event = HTTP.toEvent<unknown>({ headers: { 'content-type': contentType }, body });
  if (Array.isArray(event)) throw new Error('it is a batch');
  return new CloudEvent({ ...event }, true);
}

test('the library of CloudEvents reads an event with all its attributes', () => {
  expect(read(FACTS).toJSON()).toMatchObject({
    specversion: '1.0',
    id: 'build-01/failed',
    source: '/deployments/build',
    type: 'dev.voidbox.run.failed',
    subject: 'build-01',
    time: '2026-11-29T23:52:32.123Z',
    datacontenttype: 'application/json',
    traceparent: FACTS.traceparent,
    data: FACTS.data,
  });
});

test.each(RUN_EVENT_STATES)('an event about %s has a type of its own, and is valid', (state) => {
  const event = read({ ...FACTS, state, runId: null, traceparent: null, data: null });
  expect(event.type).toBe(`dev.voidbox.run.${state}`);
  expect(event).not.toHaveProperty('traceparent');
  expect(event.subject).toBeUndefined();
});

test('an event that is written twice is the same text', () => {
  expect(writeRunEvent(FACTS)).toEqual(writeRunEvent({ ...FACTS }));
});
