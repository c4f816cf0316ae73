import { expect, test } from 'vitest';
import { NO_NOTIFY, type Notify, NOTIFY_LIMITS } from '../../../notification/notify.ts';
import { addReceivers } from './added-receivers.ts';

const make = (name: string) => ({ name, states: ['failed'], slack: { secret: 'S' } });
const OF_SPEC: Notify = {
  receivers: [{ name: 'ops', states: ['failed'], as: null, target: { kind: 'slack', secret: 'S' } }],
  lateAfterMs: 1_000,
  waitingAfterMs: 2_000,
};

const add = (ofSpec: Notify, file: object) => addReceivers(ofSpec, JSON.stringify(file), 'team.json');
const messagesOf = (file: object): readonly string[] =>
  add(OF_SPEC, file).diagnostics.map(({ file: name, line, message }) => `${name}:${line}: ${message}`);

test('receivers of the file follow those of the spec, and only its times override', () => {
  const { notify, diagnostics, places } = add(OF_SPEC, { notify: [make('team')], late_after: '2h' });
  expect([notify.receivers.map(({ name }) => name), notify.lateAfterMs, notify.waitingAfterMs]).toEqual([
    ['ops', 'team'],
    7_200_000,
    2_000,
  ]);
  expect([diagnostics, [...places.keys()]]).toEqual([[], ['team']]);
});

test.each([
  [{ notify: [make('ops')] }, 'team.json:1: the spec has a receiver "ops" too'],
  [{ late_after: '2h' }, 'team.json:1: the file of receivers has no `notify`'],
  [{ notify: [{ ...make('a'), states: ['fialed'] }] }, 'team.json:1: `states` of receiver "a" has "fialed"'],
  [[], 'team.json:1: the file of receivers must be a mapping'],
])('a mistake is reported with its place, and adds nothing: %j', (file, message) => {
  expect(messagesOf(file)[0]).toContain(message);
  expect(add(OF_SPEC, file).notify).toEqual(OF_SPEC);
});

test('the spec and the file together have a limit of receivers', () => {
  const most = Array.from({ length: NOTIFY_LIMITS.receivers }, (_, index) => make(`r${index}`));
  expect(add(NO_NOTIFY, { notify: most }).notify.receivers).toHaveLength(NOTIFY_LIMITS.receivers);
  expect(messagesOf({ notify: most })).toEqual([
    'team.json:1: the spec and this file have 17 receivers; at most 16 are allowed',
  ]);
  const [over] = messagesOf({ notify: [...most, make('one-more')] });
  expect(over).toContain('17 receivers; at most 16 are allowed');
});
