import { expect, test } from 'vitest';
import { isPlainRef } from './workspace.ts';

test.each(['main', 'v1.2', 'feature/a-b_c', 'refs/pull/5/head', 'a'.repeat(40), 'HEAD', 'a@b', 'é', 'a.locks'])(
  'a hash or a name that git allows is a plain ref: %s',
  (ref) => {
    expect(isPlainRef(ref)).toBe(true);
  },
);

test.each([
  ['an empty text', ''],
  ['an option', '--upload-pack=touch /tmp/x'],
  ['a short option', '-x'],
  ['a range', 'main..other'],
  ['an ancestor', 'main~3'],
  ['a parent', 'main^'],
  ['a search', 'main^{/fix}'],
  ['a file of a commit', 'main:README.md'],
  ['a reflog', 'main@{1}'],
  ['HEAD by its short name', '@'],
  ['a pattern', 'refs/heads/*'],
  ['a question mark', 'a?'],
  ['a bracket', 'a[b'],
  ['a backslash', 'a\\b'],
  ['a space', 'a b'],
  ['a new line', 'a\nb'],
  ['a control character', 'a\u007fb'],
  ['a hidden part', 'a/.b'],
  ['a hidden name', '.a'],
  ['a lock', 'a.lock'],
  ['a lock of a folder', 'a.lock/b'],
  ['two slashes', 'a//b'],
  ['a slash at the start', '/a'],
  ['a slash at the end', 'a/'],
  ['a dot at the end', 'a.'],
])('%s is no plain ref', (_what, ref) => {
  expect(isPlainRef(ref)).toBe(false);
});
