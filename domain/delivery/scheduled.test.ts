import { describe, expect, test } from 'vitest';
import { makeDelivery } from '../../test/conformance/deliveries.ts';
import { makeSchedule } from '../../test/conformance/schedules.ts';
import { createDecide } from './decide.ts';
import type { ScheduleFacts, StoreFacts } from './decision.ts';
import { type DeliveryKeys, MOST_OPEN_RUNS, type ScheduledTime } from './delivery.ts';
import { createRow, NO_FACTS } from './row-changes.ts';
import { LATE_MS, MOST_QUEUED, mayCancelOldest } from './scheduled.ts';
import type { ScheduleSource } from './trigger.ts';

const AT_MS = Date.UTC(2026, 9, 25, 1, 30);
const DAY_MS = 86_400_000;
const IDLE: ScheduleFacts = { isPaused: false, hasOpenRun: false, waiting: 0, isBehind: false };
const KEYS: DeliveryKeys = { dedupe: 'k', debounce: null, batch: null, rate: null, order: null };

interface Given {
  readonly source?: Partial<ScheduleSource>;
  readonly schedule?: Partial<ScheduledTime>;
  readonly lateMs?: number;
  readonly facts?: Partial<StoreFacts>;
  readonly passed?: 'none' | 'dedupe' | 'rate' | 'start';
}

/** Returns the decision in short: its kind, and what it waits for or why. */
function decide({ source, schedule, lateMs = 0, facts, passed = 'none' }: Given): string {
  const trigger = makeSchedule(source);
  const {
    body: _body,
    isOrdered: _isOrdered,
    ...made
  } = makeDelivery({
    acceptedAtMs: AT_MS + lateMs,
    schedule: { atMs: AT_MS, isOvertaken: false, isAsked: false, ...schedule },
  });
  const row = { ...createRow({ ...made, bodySha256: '', bodyBytes: 2 }, 1), passed };
  const evaluation = { holds: true, params: {}, input: null, keys: KEYS };
  const { next, ownsKey } = createDecide({ trigger, evaluation })(
    row,
    { ...NO_FACTS, schedule: IDLE, ...facts },
    row.acceptedAtMs,
  );
  if (next.kind === 'hold') return `hold ${next.hold}`;
  if (next.kind !== 'filter') return next.kind;
  // A person may ask for the time later.
  expect(ownsKey).toBe(false);
  return next.code;
}

describe('a time of a schedule', () => {
  test.each([
    ['none', 0, 'start'],
    ['none', LATE_MS, 'start'],
    ['none', LATE_MS + 1, 'trigger/missed'],
    ['last', DAY_MS, 'start'],
    ['last', DAY_MS + 1, 'trigger/missed'],
    ['all', DAY_MS, 'start'],
    ['all', DAY_MS + 1, 'trigger/missed'],
  ] as const)('with `catchup: %s` and %i ms late: %s', (catchup, lateMs, expected) => {
    expect(decide({ source: { catchup, windowMs: DAY_MS }, lateMs })).toBe(expected);
  });

  test('that a later one has overtaken starts a run only with `catchup: all`', () => {
    const overtaken = (catchup: ScheduleSource['catchup']): string =>
      decide({ source: { catchup }, schedule: { isOvertaken: true }, lateMs: 30_000 });
    expect([overtaken('none'), overtaken('last'), overtaken('all')]).toEqual(['start', 'trigger/missed', 'start']);
  });

  test('that a person asks for is never late', () => {
    expect(decide({ schedule: { isAsked: true, isOvertaken: true }, lateMs: 900 * DAY_MS })).toBe('start');
  });

  test('may be before the clock of the service, which was set back an hour', () => {
    for (const catchup of ['none', 'last', 'all'] as const)
      expect(decide({ source: { catchup }, lateMs: -3_600_000 })).toBe('start');
  });

  test('is a duplicate of the same time, however often it is asked for', () => {
    const ownerBefore = { id: 'd1', acceptedAtMs: AT_MS };
    const schedule = { isAsked: true };
    expect(decide({ schedule, lateMs: DAY_MS - 1, facts: { ownerBefore } })).toBe('deduplicate');
  });

  test('is judged late once: a delivery that waited long still starts', () => {
    expect(decide({ lateMs: LATE_MS + 1, passed: 'dedupe' })).toBe('start');
  });
});

describe('a pause', () => {
  test('for a deployment drops times of schedules, and holds what a person asks for', () => {
    const given = (pause: 'hold' | 'drop', isAsked: boolean): string =>
      decide({ schedule: { isAsked }, facts: { pause } });
    expect([given('hold', false), given('drop', false)]).toEqual(['trigger/paused', 'trigger/paused']);
    expect([given('hold', true), given('drop', true)]).toEqual(['hold paused', 'trigger/paused']);
  });

  test('for a deployment holds a delivery that has waited before it', () => {
    expect(decide({ passed: 'rate', facts: { pause: 'hold' } })).toBe('hold paused');
  });

  test('for a schedule drops a delivery unless its run may have started', () => {
    const facts = { schedule: { ...IDLE, isPaused: true } };
    expect([decide({ facts }), decide({ facts, passed: 'rate' }), decide({ facts, passed: 'start' })]).toEqual([
      'trigger/paused',
      'trigger/paused',
      'start',
    ]);
  });
});

describe('a run of the schedule that is open', () => {
  const open = { schedule: { ...IDLE, hasOpenRun: true } };

  test.each([
    ['skip', false, 'trigger/overlap'],
    ['skip', true, 'hold overlap'],
    ['queue', false, 'hold overlap'],
    ['cancel_oldest', false, 'hold overlap'],
    ['allow', false, 'start'],
  ] as const)('with `overlap: %s`, asked for by a person: %s', (overlap, isAsked, expected) => {
    expect(decide({ source: { overlap }, schedule: { isAsked }, facts: open })).toBe(expected);
  });

  test('skips a time also while another delivery waits for it', () => {
    expect(decide({ facts: { schedule: { ...IDLE, waiting: 1 } } })).toBe('trigger/overlap');
  });

  test('keeps at most so many deliveries waiting', () => {
    const given = (waiting: number): string =>
      decide({ source: { overlap: 'queue' }, facts: { schedule: { ...IDLE, hasOpenRun: true, waiting } } });
    expect([given(MOST_QUEUED - 1), given(MOST_QUEUED)]).toEqual(['hold overlap', 'trigger/overlap']);
  });

  test('lets the delivery for the earliest time start first', () => {
    const given = (isBehind: boolean): string =>
      decide({ source: { overlap: 'queue' }, facts: { schedule: { ...IDLE, waiting: 1, isBehind } } });
    expect([given(true), given(false)]).toEqual(['hold overlap', 'start']);
  });

  test('is decided before the room of the deployment', () => {
    expect(decide({ facts: { ...open, openRuns: MOST_OPEN_RUNS } })).toBe('trigger/overlap');
  });

  test('is cancelled only for a time that no person asked for', () => {
    const row = (isAsked: boolean) => ({ schedule: { atMs: 1, isOvertaken: false, isAsked } });
    const replaces = (overlap: ScheduleSource['overlap'], isAsked = false): boolean =>
      mayCancelOldest(makeSchedule({ overlap }), row(isAsked));
    expect([replaces('cancel_oldest'), replaces('cancel_oldest', true), replaces('queue')]).toEqual([
      true,
      false,
      false,
    ]);
  });
});
