/** Events about answers and failures; `run-calls.events.test.ts` tests the other events. */
import { expect, test } from 'vitest';
import { machineOf } from '../../test/machine/plan-of.ts';
import type { AdmittedRun } from '../admission/admitted-run.ts';
import { checkEvents } from './events.ts';

const ASKS = {
  plan: {
    stages: [
      {
        id: 'talk',
        work: {
          kind: 'approval',
          fields: [{ name: 'count', type: 'number', required: true, description: '', choices: [] }],
        },
      },
    ],
  },
};
const RUN = { runId: 'run', machine: machineOf('own:2 talk:2', { ask: 'talk' }), ...ASKS } as unknown as AdmittedRun;
const FAILURE = { code: 'stage/rejected', message: 'no', stderrTail: '' };
const OUTPUT = { sha256: 'a'.repeat(64), sizeBytes: 3, mediaType: 'application/json' };
const asking = { type: 'stage-asking', stage: 'talk', execKey: 'talk/0/1', attempt: 1 };
const rejected = { outcome: 'failed', failure: FAILURE };
const answered = { type: 'stage-answered', stage: 'talk', execKey: 'talk/0/1', outcome: 'succeeded', failure: null };

test('answers are accepted in the form that the machine makes', () => {
  const events = [
    { id: 'stage/talk/0/1/answered', atMs: 2, body: { ...answered, outcome: 'failed', failure: FAILURE, by: 'ada' } },
    {
      id: 'stage/talk/0/2/answered',
      atMs: 3,
      body: { ...answered, execKey: 'talk/0/2', outcome: 'cancelled' },
    },
    { id: 'stage/talk/0/1/answered', atMs: 3, body: { ...answered, ...rejected, fields: { count: 3 } } },
    { id: 'stage/talk/0/1/answered', atMs: 3, body: { ...answered, ...rejected, fields: {} } },
    {
      id: 'stage/talk/0/3/answered',
      atMs: 4,
      body: { ...answered, execKey: 'talk/0/3', by: 'ada', comment: 'go', output: OUTPUT },
    },
  ];
  expect(checkEvents(RUN, events)).toEqual(events);
});

const GROWING = { ...RUN, machine: machineOf('own:3', { backoffMs: 100, retry: { factor: 2 } }) };
const retryingAfter = (delayMs: unknown) => [
  {
    id: 'stage/own/0/2/retrying',
    atMs: 1,
    body: { type: 'stage-retrying', stage: 'own', execKey: 'own/0/2', reason: 'x', delayMs },
  },
];

test.each([0, 100, 200])('a pause of %s before another attempt is accepted, because the plan has it', (delayMs) => {
  expect(checkEvents(GROWING, retryingAfter(delayMs))).toEqual(retryingAfter(delayMs));
});

test.each([400, 150, '100'])('a pause of %s, which the plan does not have, is refused', (delayMs) => {
  expect(() => checkEvents(GROWING, retryingAfter(delayMs))).toThrow(expect.objectContaining({ code: 'call/refused' }));
});

const failed = { type: 'stage-failed', stage: 'own', execKey: 'own/0/1', failure: { ...FAILURE, code: 'vm/lost' } };

test('a failure without a result is accepted, for each attempt that the machine reaches', () => {
  const events = [1, 5].map((attempt) => ({
    id: `stage/own/0/${attempt}/failed`,
    atMs: 1,
    body: { ...failed, execKey: `own/0/${attempt}` },
  }));
  expect(checkEvents(RUN, events)).toEqual(events);
});

test.each<[string, string, object]>([
  ['of an unknown stage', 'stage/evil/0/1/failed', { ...failed, stage: 'evil', execKey: 'evil/0/1' }],
  ['of an attempt that cannot be', 'stage/own/0/9/failed', { ...failed, execKey: 'own/0/9' }],
  ['under the id of a result', 'stage/own/0/1/finished', failed],
  ['with an invalid failure', 'stage/own/0/1/failed', { ...failed, failure: { code: 'vm/lost' } }],
  ['with a long text', 'stage/own/0/1/failed', { ...failed, failure: { ...FAILURE, message: 'x'.repeat(70_000) } }],
])('a failure %s is refused', (_what, id, body) => {
  expect(() => checkEvents(RUN, [{ id, atMs: 1, body }])).toThrow(expect.objectContaining({ code: 'call/refused' }));
});

test.each<[string, string, object]>([
  ['that only the activity which asks may write', 'stage/talk/0/1/asking', asking],
  ['of a stage that runs a command', 'stage/own/0/1/answered', { ...answered, stage: 'own', execKey: 'own/0/1' }],
  ['of an unknown stage', 'stage/evil/0/1/answered', { ...answered, stage: 'evil', execKey: 'evil/0/1' }],
  ['of an attempt that cannot be', 'stage/talk/0/9/answered', { ...answered, execKey: 'talk/0/9' }],
  ['with an output that is no ref', 'stage/talk/0/1/answered', { ...answered, output: { sha256: 'x' } }],
  [
    'that failed with an output',
    'stage/talk/0/1/answered',
    { ...answered, outcome: 'failed', failure: FAILURE, output: OUTPUT },
  ],
  ['with a field that it does not have', 'stage/talk/0/1/answered', { ...answered, ...rejected, fields: { evil: 1 } }],
  ['with a field of another type', 'stage/talk/0/1/answered', { ...answered, ...rejected, fields: { count: 'x' } }],
  ['that succeeded with fields', 'stage/talk/0/1/answered', { ...answered, fields: { count: 3 } }],
  ['by a person without a name', 'stage/talk/0/1/answered', { ...answered, by: 7 }],
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
  expect(() => checkEvents(RUN, [{ id, atMs: 1, body }])).toThrow(expect.objectContaining({ code: 'call/refused' }));
});

const waits = machineOf('pause own', { wait: 'pause' });
const until = {
  ...waits,
  stages: waits.stages.map((stage) => ({ ...stage, wait: stage.wait && { forMs: null, untilMs: 9 } })),
};
const sleeping = { type: 'stage-sleeping', stage: 'pause', execKey: 'pause/0/1', attempt: 1, untilMs: 9 };
const woken = { type: 'stage-woken', stage: 'pause', execKey: 'pause/0/1', outcome: 'succeeded' };

test('waits are accepted in the form that the workflow makes', () => {
  const events = [
    { id: 'stage/pause/0/1/sleeping', atMs: 1, body: sleeping },
    { id: 'stage/pause/0/1/woken', atMs: 2, body: woken },
  ];
  for (const machine of [waits, until]) expect(checkEvents({ ...RUN, machine } as AdmittedRun, events)).toEqual(events);
});

test.each<[string, string, object]>([
  ['of a stage that runs a command', 'stage/own/0/1/sleeping', { ...sleeping, stage: 'own', execKey: 'own/0/1' }],
  ['of an attempt that cannot be', 'stage/pause/0/9/sleeping', { ...sleeping, execKey: 'pause/0/9', attempt: 9 }],
  ['of another attempt than its key', 'stage/pause/0/1/sleeping', { ...sleeping, attempt: 2 }],
  ['until a time that the plan does not have', 'stage/pause/0/1/sleeping', { ...sleeping, untilMs: 10 }],
  ['until no time', 'stage/pause/0/1/sleeping', { ...sleeping, untilMs: 1e300 }],
  ['under the id of a result', 'stage/pause/0/1/finished', woken],
  ['that failed', 'stage/pause/0/1/woken', { ...woken, outcome: 'failed' }],
  ['that began in another stage', 'stage/own/0/1/woken', { ...woken, stage: 'own', execKey: 'own/0/1' }],
])('a wait %s is refused', (_what, id, body) => {
  expect(() => checkEvents({ ...RUN, machine: until } as AdmittedRun, [{ id, atMs: 1, body }])).toThrow(
    expect.objectContaining({ code: 'call/refused' }),
  );
});

const DECIDED = { ...RUN, machine: machineOf('own gate', { when: 'gate' }) };
const passed = { type: 'stage-passed', stage: 'gate' };

test('the event that a stage was passed is accepted, also after a repeated decision', () => {
  const events = [
    { id: 'stage/gate/passed', atMs: 1, body: passed },
    { id: 'stage/gate/passed/2', atMs: 1, body: { ...passed, output: OUTPUT } },
  ];
  expect(checkEvents(DECIDED, events)).toEqual(events);
});

test.each<[string, string, object]>([
  ['without a condition', 'stage/own/passed', { ...passed, stage: 'own' }],
  ['unknown to the plan', 'stage/evil/passed', { ...passed, stage: 'evil' }],
  ['under the id of another', 'stage/own/passed', passed],
  ['under an id that the machine does not make', 'stage/gate/passed/1', passed],
  ['with an output that is no ref', 'stage/gate/passed', { ...passed, output: { sha256: 'x' } }],
])('the event that a stage %s was passed is refused', (_what, id, body) => {
  expect(() => checkEvents(DECIDED, [{ id, atMs: 1, body }])).toThrow(
    expect.objectContaining({ code: 'call/refused' }),
  );
});
