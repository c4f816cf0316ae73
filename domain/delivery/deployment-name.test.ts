import { expect, test } from 'vitest';
import { runIdProblem } from '../run/run-id.ts';
import { findNameProblem, nameRun } from './deployment-name.ts';

test.each(['review', 'a', 'A.b_c-9', '0', 'x'.repeat(63)])('a deployment may have the name %s', (name) => {
  expect(findNameProblem(name)).toBeNull();
  expect(runIdProblem(nameRun(name, '01KBTESTTESTTESTTESTTESTTE'))).toBeNull();
});

test.each(['', '.', '..', '-a', '.git', 'a/b', 'a b', 'ä', 'a\n', 'a\0', '%2e', 'x'.repeat(64)])(
  'a deployment may not have the name %j',
  (name) => {
    expect(findNameProblem(name)).not.toBeNull();
  },
);
