/** Events about questions, which today's plans do not ask yet; those of plans stand in `run-calls.test.ts`. */
import { expect, test } from 'vitest';
import { machineOf } from '../test/machine/plan-of.ts';
import type { AdmittedRun } from './admitted-run.ts';
import { checkedEvents } from './call-events.ts';

const RUN = { runId: 'run', machine: machineOf('own:2 talk:2', { ask: 'talk' }) } as unknown as AdmittedRun;
const FAILURE = { code: 'stage/declined', message: 'no', stderrTail: '' };
const asking = { type: 'stage-asking', stage: 'talk', execKey: 'talk/0/1', attempt: 1 };
const answered = { type: 'stage-answered', stage: 'talk', execKey: 'talk/0/1', outcome: 'succeeded', failure: null };

test('a question and its answers are taken as the machine makes them', () => {
  const events = [
    { id: 'stage/talk/0/1/asking', atMs: 1, body: asking },
    { id: 'stage/talk/0/1/answered', atMs: 2, body: { ...answered, outcome: 'failed', failure: FAILURE } },
    {
      id: 'stage/talk/0/2/answered',
      atMs: 3,
      body: { ...answered, execKey: 'talk/0/2', outcome: 'cancelled' },
    },
  ];
  expect(checkedEvents(RUN, events)).toEqual(events);
});

test.each<[string, string, object]>([
  ['of a stage that runs a command', 'stage/own/0/1/asking', { ...asking, stage: 'own', execKey: 'own/0/1' }],
  ['of an unknown stage', 'stage/evil/0/1/asking', { ...asking, stage: 'evil', execKey: 'evil/0/1' }],
  ['of an attempt that cannot be', 'stage/talk/0/9/asking', { ...asking, execKey: 'talk/0/9', attempt: 9 }],
  ['with a number that is not its key’s', 'stage/talk/0/1/asking', { ...asking, attempt: 2 }],
  ['under the id of a result', 'stage/talk/0/1/finished', answered],
  ['that succeeded with a failure', 'stage/talk/0/1/answered', { ...answered, failure: FAILURE }],
  ['that failed without one', 'stage/talk/0/1/answered', { ...answered, outcome: 'failed' }],
  ['that ended otherwise', 'stage/talk/0/1/answered', { ...answered, outcome: 'passed' }],
  [
    'with a long text',
    'stage/talk/0/1/answered',
    { ...answered, outcome: 'failed', failure: { ...FAILURE, message: 'x'.repeat(70_000) } },
  ],
])('a question or an answer %s is refused', (_what, id, body) => {
  expect(() => checkedEvents(RUN, [{ id, atMs: 1, body }])).toThrow(expect.objectContaining({ code: 'call/refused' }));
});
