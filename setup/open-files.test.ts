import { expect, test } from 'vitest';
import { openFilesLimit, STACK_OPEN_FILES, tooFewOpenFiles } from './open-files.cjs';

test('reads the limit of this process', () => {
  expect(openFilesLimit()).toBeGreaterThan(0);
});

test('says what is needed, what there is and how to get more', () => {
  expect(tooFewOpenFiles('The embedded stack', STACK_OPEN_FILES, 256)).toEqual({
    message: 'The embedded stack needs 1024 open files, but this process may open only 256.',
    remedy:
      'Raise the limit in the shell that starts it: ulimit -n 1024. If the shell refuses that, raise it as root, or with LimitNOFILE= of a systemd unit.',
  });
  expect(tooFewOpenFiles('The embedded stack', STACK_OPEN_FILES, STACK_OPEN_FILES)).toBeNull();
  expect(tooFewOpenFiles('The embedded stack', STACK_OPEN_FILES, Number.POSITIVE_INFINITY)).toBeNull();
  expect(tooFewOpenFiles('The embedded stack', STACK_OPEN_FILES, null)).toBeNull();
});
