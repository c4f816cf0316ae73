import { expect, test } from 'vitest';
import { findResultProblem, listNamedFiles, mustLeaveResult } from './result-rule.ts';

test.each([
  ['agent', 1, true],
  ['agent', 3, true],
  ['pipeline', 2, true],
  ['workflow', 1, true],
  ['workflow', 2, false],
  ['sandbox', 1, false],
])('a run of the kind %s with %i stages leaves a result: %s', (kind, stages, expected) => {
  expect(mustLeaveResult(kind, stages)).toBe(expected);
});

test.each([
  [null, 'missing', "stage 'a' completed without result.json"],
  [undefined, 'malformed', "result.json for stage 'a' is not valid JSON"],
  ['', 'malformed', "result.json for stage 'a' is not valid JSON"],
  ['not json', 'malformed', "result.json for stage 'a' is not valid JSON"],
  ['[]', 'malformed', "result.json for stage 'a' is missing required 'status' field"],
  ['null', 'malformed', "result.json for stage 'a' is missing required 'status' field"],
  ['{"summary":1}', 'malformed', "result.json for stage 'a' is missing required 'status' field"],
] as const)('the result %j is %s', (text, kind, message) => {
  expect(findResultProblem('a', text)).toEqual({ kind, message });
});

test('a result with any status is one', () => {
  expect(findResultProblem('a', '{"status":null}')).toBeNull();
});

test('a result names artifacts, and no path is a name', () => {
  const artifacts = [
    { name: 'report.md', media_type: 'text/markdown' },
    { name: 'b', path: 'out/b.bin' },
    { name: 'c', path: '/etc/passwd' },
    { name: '../evil' },
    { name: 'x/y' },
    { name: '' },
    { path: 'z' },
    'text',
  ];
  expect(listNamedFiles(JSON.stringify({ status: 'ok', artifacts }))).toEqual([
    { name: 'report.md', guestPath: '/workspace/report.md', mediaType: 'text/markdown' },
    { name: 'b', guestPath: '/workspace/out/b.bin', mediaType: 'application/octet-stream' },
    { name: 'c', guestPath: '/etc/passwd', mediaType: 'application/octet-stream' },
  ]);
  expect(listNamedFiles('{"status":1,"artifacts":{}}')).toEqual([]);
  expect(listNamedFiles('no json')).toEqual([]);
});

test('at most 1,000 artifacts of a result are read', () => {
  const artifacts = Array.from({ length: 1_001 }, (_one, index) => ({ name: `f${index}` }));
  expect(listNamedFiles(JSON.stringify({ artifacts }))).toHaveLength(1_000);
});
