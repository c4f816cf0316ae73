import { expect, test } from 'vitest';
import { SPEC } from '../../domain/language/grammar/spec-table.ts';
import type { Key, MappingTable, ValueType } from '../../domain/language/grammar/table.ts';
import { toSdkWords, SDK_NAMES } from './sdk-words.ts';

const translated = (message: string, remedy = ''): readonly string[] => {
  const words = toSdkWords({ message, remedy }, (line) => `x.ts:${line * 10}:1`);
  return remedy === '' ? [words.message] : [words.message, words.remedy];
};

function keysOf({ keys }: MappingTable): readonly string[] {
  // A definition never has the kind `agent`.
  const here = Object.entries<Key>(keys).filter(([name]) => name !== 'agent');
  return here.flatMap(([name, key]) => [name, ...keysBelow(key.type)]);
}

function keysBelow(type: ValueType): readonly string[] {
  if (type.is === 'list') return keysBelow(type.of);
  if (type.is === 'variants' || type.is === 'forms') return Object.values(type.tables).flatMap(keysOf);
  return 'table' in type ? keysOf(type.table) : [];
}

test('each key of a spec that is not in the style of TypeScript has another name here', () => {
  const snake = keysOf(SPEC).filter((key) => key.includes('_') && key !== 'api_version');
  expect(snake.length).toBeGreaterThan(10);
  expect(snake.filter((key) => SDK_NAMES[key] === undefined)).toEqual([]);
});

test('durations are in milliseconds, other numbers do not change', () => {
  expect(translated('`timeout_secs` of step "a" is 0.0005', 'write a number from 0.001 to 604800 (seconds)')).toEqual([
    '`timeoutMs` of step "a" is 0.5',
    'write a number from 1 to 604800000 (milliseconds)',
  ]);
  expect(translated('`backoff_secs` of box "b" is -1e-7')).toEqual(['`backoffMs` of box "b" is -0.0001']);
  expect(translated('`timeout_secs` of step "a" is 1.005e+21')).toEqual(['`timeoutMs` of step "a" is 1.005e+24']);
  expect(
    translated('`timeout_secs` of step "a" must be a number from 0.001 to 604800 (seconds), got the string "NaN"'),
  ).toEqual(['`timeoutMs` of step "a" must be a number from 1 to 604800000 (milliseconds), got the string "NaN"']);
  expect(translated('`memory_mb` of `sandbox` is 5', 'write a whole number from 128 to 65536 (MiB)')).toEqual([
    '`memoryMib` of `sandbox` is 5',
    'write a whole number from 128 to 65536 (MiB)',
  ]);
});

test('durations of an approval and a wait are in milliseconds', () => {
  expect(translated('`timeout` of `approval` of step "a" must be a duration, got the string "NaN"', 'write …')).toEqual(
    [
      '`timeoutMs` of step "a" must be a duration, got the string "NaN"',
      'write milliseconds, from 1000 to 31622400000',
    ],
  );
  expect(translated('`for` of `wait` of step "a" is 1ms; a duration from 1s to 400d is allowed', 'write …')).toEqual([
    '`forMs` of step "a" is 1ms; a duration from 1s to 400d is allowed',
    'write milliseconds, from 1000 to 34560000000',
  ]);
  expect(translated('step "a" has `on_timeout` and no `timeout`: it never applies', 'add a `timeout`')).toEqual([
    'step "a" has `onTimeout` and no `timeoutMs`: it never applies',
    'add a `timeoutMs`',
  ]);
});

test('only text that is marked as code is a key: values do not change', () => {
  expect(translated('`name` of step 1 is "depends_on is timeout_secs"')).toEqual([
    '`name` of step 1 is "depends_on is timeout_secs"',
  ]);
});

test.each([
  [
    '`depends_on` of step "b" names the step "gone", which does not exist; did you mean "done"?',
    '`dependsOn` of step "b" names the step "gone", which is not in `steps` of `defineWorkflow`',
  ],
  [
    '`output_box` names the box "q", which does not exist',
    '`output` names the box "q", which is not in `stages` of `definePipeline`',
  ],
  ['`output_box` names the box "q", which is in no stage', '`output` names the box "q", which is in no stage'],
])('%s', (message, expected) => {
  expect(translated(message)).toEqual([expected]);
});

test('a line of the spec becomes a place in the definition', () => {
  expect(translated('two steps have the name "a", the first on line 7')).toEqual([
    'two steps have the name "a", the first at x.ts:70:1',
  ]);
});

test.each([
  ['write `run: "ls | wc"`', 'write `"ls | wc"`'],
  ["write `run: 'echo \"it''s\"'`", 'write `"echo \\"it\'s\\""`'],
  ['write `run: …`', 'write `…`'],
])('a command with a shell is written in the form of TypeScript: %s', (remedy, expected) => {
  expect(translated('`program` of step "a" is "x"', remedy)[1]).toBe(expected);
});
