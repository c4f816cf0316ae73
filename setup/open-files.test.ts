import { expect, test } from 'vitest';
import { openFilesLimit, STACK_OPEN_FILES, tooFewOpenFiles } from './open-files.cjs';

test('reads the limit of this process', () => {
  expect(openFilesLimit()).toBeGreaterThan(0);
});

test('says what is needed, what there is and how to get more', () => {
  expect(tooFewOpenFiles('The embedded stack', STACK_OPEN_FILES, 256)).toEqual({
    message: 'The embedded stack needs 1024 open files, and 256 are allowed here.',
    remedy:
      'Allow more where it is started: ulimit -n 1024 (as root, or by LimitNOFILE= of a systemd unit, where that is refused)',
  });
  expect(tooFewOpenFiles('The embedded stack', STACK_OPEN_FILES, STACK_OPEN_FILES)).toBeNull();
  expect(tooFewOpenFiles('The embedded stack', STACK_OPEN_FILES, Number.POSITIVE_INFINITY)).toBeNull();
  expect(tooFewOpenFiles('The embedded stack', STACK_OPEN_FILES, null)).toBeNull();
});
