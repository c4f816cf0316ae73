import { expect, test } from 'vitest';
import { MOST_STRAYS, STRAY_CHARACTERS, describeStray, createStrayNotice } from './stray.ts';

test('a notice names the signal or update, and the names that the run accepts', () => {
  expect(describeStray('signal', 'cancelfinally', ['cancelFinally'])).toBe(
    'the signal "cancelfinally" has no handler and was ignored: a run takes the signal "cancelFinally"',
  );
  expect(describeStray('update', 'approve', ['answer', 'more'])).toBe(
    'the update "approve" has no handler and was refused: a run takes the updates "answer", "more"',
  );
});

test('a name of 1 MiB is cut at a whole character', () => {
  const message = createStrayNotice(describeStray('update', '😀'.repeat(2 ** 18), ['answer']), MOST_STRAYS);
  expect(message).toContain(`"${'😀'.repeat(100)}…"`);
  expect(message.length).toBeLessThan(STRAY_CHARACTERS);
});

test('only the last notice reports that no more follow', () => {
  expect(createStrayNotice('m', MOST_STRAYS - 1)).toBe('m');
  expect(createStrayNotice('m', MOST_STRAYS)).toBe('m. No more notices of this kind follow');
});
