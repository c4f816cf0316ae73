import { expect, it } from 'vitest';
import {
  BUDGET_MS,
  describeFailures,
  describeTimes,
  MOST_FAILURES,
  parseCargoFailures,
  runAll,
} from './test-report.mjs';

const took = (name: string, durationMs: number): { name: string; durationMs: number } => ({ name, durationMs });

it('names ten of many files, the slowest first', () => {
  const files = Array.from({ length: 30 }, (_, index) => took(`file-${index}`, index * 1_000));
  const lines = describeTimes([took('pure', 1_234)], 1_234, files);
  expect(lines.slice(0, 5)).toEqual([
    'time by group:',
    '      1.2 s  pure',
    '      1.2 s  total',
    'the 10 slowest of 30 files:',
    '     29.0 s  file-29',
  ]);
  expect(lines).toHaveLength(14);
});

it('says nothing of files where only other tools ran', () => {
  expect(describeTimes([took('rust', 60_000)], 60_000, [])).toEqual([
    'time by group:',
    '     60.0 s  rust',
    '     60.0 s  total',
  ]);
});

it('warns only above the budget, and names both times', () => {
  // The groups run in parallel, so their sum exceeds the budget.
  const groups = [took('process', BUDGET_MS), took('rust', BUDGET_MS)];
  const warnings = (totalMs: number): string[] =>
    describeTimes(groups, totalMs, []).filter((line) => line.startsWith('warning'));
  expect(warnings(BUDGET_MS)).toEqual([]);
  expect(warnings(BUDGET_MS + 60_000)).toEqual([
    expect.stringMatching(/^warning: the tests took 31\.0 minutes; the budget is 30\.0\. Shorten /),
  ]);
});

it('groups of a step run side by side, steps one after another, and the total is the time of all', async () => {
  const running = new Set<string>();
  const besides: string[] = [];
  const { times, failed } = await runAll([['pure'], ['process', 'rust']], async (group) => {
    running.add(group);
    await new Promise((resolve) => setTimeout(resolve, 190));
    besides.push([...running].join());
    running.delete(group);
    return { code: group === 'rust' ? 1 : 0, failures: [] };
  });
  expect(besides).toEqual(['pure', 'process,rust', 'rust']);
  expect(failed).toEqual([{ group: 'rust', failures: [] }]);
  const [pure, process, rust, total] = times.slice(1).map((line) => Number.parseFloat(line));
  expect(total).toBeLessThan(pure! + process! + rust!);
});

it('the failures name each failed test, and a group that named no failure', () => {
  const failed = [
    { group: 'pure', failures: ['store/prune.test.ts > removes a run', 'domain/a.test.ts (the file itself)'] },
    { group: 'server', failures: [] },
  ];
  expect(describeFailures(failed)).toEqual([
    '  failed  pure: store/prune.test.ts > removes a run',
    '  failed  pure: domain/a.test.ts (the file itself)',
    '  failed  server: see its output above',
  ]);
});

it('the list of failures is bounded, and counts the rest', () => {
  const failures = Array.from({ length: MOST_FAILURES + 2 }, (_, index) => `test ${index}`);
  const lines = describeFailures([{ group: 'pure', failures }]);
  expect(lines).toHaveLength(MOST_FAILURES + 1);
  expect(lines.at(-1)).toBe('  and 2 more, named in the output above');
});

it('the output of cargo names failed tests once, crates that do not compile and programs that a signal ended', () => {
  const output = `
running 3 tests
.\u001b[31mF\u001b[0m.
failures:

---- door::rules::tests::refuses stdout ----
failures:
    not a name because it is printed by the test

failures:
    door::rules::tests::refuses
    keeps_order

test result: \u001b[31mFAILED\u001b[0m. 1 passed; 2 failed; 0 ignored
\u001b[1m\u001b[91merror\u001b[0m: could not compile \`guest-agent\` (test "boot") due to 1 previous error
error: test failed, to rerun pass \`-p keeper --test rooms\`

Caused by:
  process didn't exit successfully: \`/target/debug/deps/rooms-12ab --quiet\` (signal: 6, SIGABRT: process abort signal)
  process didn't exit successfully: \`/target/debug/deps/door-12ab --quiet\` (exit status: 101)
`;
  expect(parseCargoFailures(output)).toEqual([
    'door::rules::tests::refuses',
    'keeps_order',
    'guest-agent does not compile',
    '/target/debug/deps/rooms-12ab (signal: 6, SIGABRT: process abort signal)',
  ]);
});
