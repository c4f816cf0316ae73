import { expect, test } from 'vitest';
import { renderCancel } from './cancel.ts';

const same = (text: string): string => text;
const runId = 'nightly';

test('a run that has ended is told so, before or by the cancel', () => {
  expect(renderCancel({ runId, state: 'succeeded', wasRunning: false }, ['clean'], same)).toBe(
    'nightly had already ended: succeeded\n',
  );
  expect(renderCancel({ runId, state: 'cancelled', wasRunning: true }, ['clean'], same)).toBe('nightly cancelled\n');
});

test('one that goes on says why, and how that ends too', () => {
  const fact = { runId, state: 'cancelling', wasRunning: true };
  expect(renderCancel(fact, [], same)).toBe('nightly is asked to stop. See: voidbox status nightly\n');
  expect(renderCancel(fact, ['clean', 'tell\u001b[2J'], same)).toBe(
    'nightly is asked to stop. See: voidbox status nightly\nStages with `finally` run before it ends: clean, tell. To stop them too: voidbox cancel nightly\n',
  );
});
