import { expect, test } from 'vitest';
import { countUtf8Bytes } from '../units/utf8.ts';
import { findFileProblem, FOLDER_LIMITS, type FoundFile, showPath } from './file-rules.ts';

const FILE: FoundFile = { kind: 'file', path: 'in/a b.csv', pathBytes: 10, sizeBytes: 0 };

test('an ordinary file may start a run, also an empty one and one at each limit', () => {
  expect(findFileProblem(FILE)).toBeNull();
  expect(findFileProblem({ ...FILE, sizeBytes: FOLDER_LIMITS.fileBytes, pathBytes: 1_024 })).toBeNull();
});

test.each<[Partial<FoundFile>, RegExp]>([
  [{ sizeBytes: FOLDER_LIMITS.fileBytes + 1 }, /it has 1073741825 bytes; at most 1073741824/],
  [{ pathBytes: 1_025 }, /its path has 1025 bytes; at most 1024/],
  [{ path: null }, /not UTF-8/],
  [{ path: 'a\nb' }, /control character/],
  [{ path: 'a\u001b[2Jb' }, /control character/],
  [{ path: 'a\u0085b' }, /control character/],
  [{ path: 'a\u2028b' }, /control character/],
  [{ kind: 'link' }, /links are not followed/],
  [{ kind: 'pipe' }, /a named pipe/],
  [{ kind: 'socket' }, /a socket/],
  [{ kind: 'device' }, /a device/],
  [{ kind: 'folder' }, /below 16 others/],
])('another entry starts none, for a reason: %o', (changes, problem) => {
  expect(findFileProblem({ ...FILE, ...changes })).toMatch(problem);
});

test('a path is shown without control characters, well-formed and of bounded length', () => {
  expect(showPath('a\u001b\nb\ud800.csv')).toBe('a\uFFFD\uFFFDb\uFFFD.csv');
  expect(countUtf8Bytes(showPath('𝄞'.repeat(2_000)))).toBeLessThanOrEqual(FOLDER_LIMITS.pathBytes);
  expect(showPath('a'.repeat(1_024))).toBe('a'.repeat(1_024));
});
