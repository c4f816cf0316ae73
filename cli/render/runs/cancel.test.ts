import { expect, test } from 'vitest';
import { renderCancel } from './cancel.ts';

const same = (text: string): string => text;
const runId = 'nightly';

test('the text reports that the run has ended, before or by the cancel', () => {
  expect(renderCancel({ runId, state: 'succeeded', wasRunning: false }, ['clean'], same)).toBe(
    'nightly had already ended: succeeded\n',
  );
  expect(renderCancel({ runId, state: 'cancelled', wasRunning: true }, ['clean'], same)).toBe('nightly cancelled\n');
});

test('the text for a run that still runs names the reason, and how to stop that too', () => {
  const fact = { runId, state: 'cancelling', wasRunning: true };
  expect(renderCancel(fact, [], same)).toBe('nightly is asked to stop. See: voidbox status nightly\n');
  expect(renderCancel(fact, ['clean', 'tell\u001b[2J'], same)).toBe(
    'nightly is asked to stop. See: voidbox status nightly\nStages with `finally` run before it ends: clean, tell. To stop them too: voidbox cancel nightly\n',
  );
});
