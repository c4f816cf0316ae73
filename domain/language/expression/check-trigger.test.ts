import { expect, test } from 'vitest';
import { checkTriggerExpressions } from './check-trigger.ts';
import { EXPRESSION_LIMITS } from './limits.ts';

const { condition, text } = checkTriggerExpressions;

test.each([
  'input.action in ["opened", "synchronize"]',
  'headers["x-github-event"] == "pull_request" && !input.pull_request.draft',
  'has(input.number) && input.labels.exists(label, label.name.startsWith("deploy"))',
  'input.commits.size() > 0',
  'input.enabled',
])('a condition of a trigger may read the payload and the headers: %s', (source) => {
  expect(condition(source)).toEqual([]);
});

test.each(['input.number', 'string(input.number) + "-" + headers.host', 'input["a-b"][0]', '[input.a, input.b]'])(
  'a text of a trigger may read the payload and the headers: %s',
  (source) => {
    expect(text(source)).toEqual([]);
  },
);

test.each([
  ['stages.a.output == "x"', 'unknown variable: stages', 0, /before a run/],
  ['true && params.n > 1', 'unknown variable: params', 8, /sets parameters/],
  ['item.a == 1', 'unknown variable: item', 0, /no items/],
  ['secrets.TOKEN == ""', 'unknown variable: secrets', 0, /cannot read secrets/],
  ['payload.a == 1', 'unknown variable: payload', 0, /^write `input`$/],
  ['labels.size() == 1', 'unknown variable: labels', 0, /^read `input`/],
  ['input.a &&', 'unexpected token: EOF', 10, /^undefined$/],
  ['headers.host', 'its value has the type string, but a condition must be a bool', 0, /^undefined$/],
  ['headers.host == 1', 'no such overload: string == int', 0, /convert/],
  ['b"x" == b"x"', 'bytes are not supported: compare strings', 0, /^undefined$/],
] as const)('a condition is refused with its place and a remedy of triggers: %s', (source, message, start, remedy) => {
  const problems = condition(source);
  expect(problems[0]).toMatchObject({ message: expect.stringContaining(message) as string, start });
  expect(String(problems[0]!.remedy)).toMatch(remedy);
});

test('an expression of a trigger has the limits of a condition', () => {
  const long = `input.${'a'.repeat(EXPRESSION_LIMITS.characters)}`;
  expect(condition(long)[0]!.message).toMatch(/at most 4096 are allowed/);
  const deep = `${'('.repeat(EXPRESSION_LIMITS.depth + 1)}true${')'.repeat(EXPRESSION_LIMITS.depth + 1)}`;
  expect(condition(deep)).toHaveLength(1);
});

test('a text is refused if its value has no text', () => {
  expect(text('type(input)')).toEqual([expect.objectContaining({ message: expect.stringMatching(/type/) as string })]);
});
