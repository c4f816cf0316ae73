import { appendFileSync } from 'node:fs';
import { afterEach, expect, it, vi } from 'vitest';
import TestReport, {
  BUDGET_MS,
  describeFailures,
  describeTimes,
  LAST_FILES,
  MOST_FAILURES,
  parseCargoFailures,
  REPORT_FILE,
  runAll,
} from './test-report.mjs';

afterEach(() => void vi.unstubAllEnvs());

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

/** A group of vitest with one file more than those that are its last ones. */
function reportFiles(reportFile: string): { endFile(): void } {
  vi.stubEnv(REPORT_FILE, reportFile);
  const reporter = new TestReport();
  reporter.onTestRunStart(Array.from({ length: LAST_FILES + 1 }));
  return { endFile: () => reporter.onTestModuleEnd() };
}

it('a step begins once the previous one runs its last files, and the report has both', async () => {
  const begun: string[] = [];
  const { failed, times } = await runAll(
    [['server'], ['vm']],
    async (group, reportFile) => {
      begun.push(group);
      if (group === 'vm') return { code: 0 };
      const files = reportFiles(reportFile);
      expect(begun).toEqual(['server']);
      files.endFile();
      await vi.waitUntil(() => begun.includes('vm'), { timeout: 60_000 });
      appendFileSync(reportFile, `${JSON.stringify({ failure: 'a test' })}\n`);
      return { code: 1 };
    },
    true,
  );
  expect(times.slice(1, 3)).toEqual([expect.stringMatching(/server \(failed\)$/), expect.stringMatching(/vm$/)]);
  expect(failed).toEqual([{ group: 'server', failures: ['a test'] }]);
});

it.each([
  ['that has more files than its last ones', true, false],
  ['whose next one must not overlap', false, true],
])('the step after one %s begins after its end', async (_what, overlaps, endsOne) => {
  const happened: string[] = [];
  await runAll(
    [['server'], ['vm']],
    async (group, reportFile) => {
      happened.push(`${group} begins`);
      const files = reportFiles(reportFile);
      if (endsOne) files.endFile();
      // Long enough for a look at the marks.
      for (let tick = 0; tick < 4; tick += 1) await new Promise((resolve) => setTimeout(resolve, 100));
      happened.push(`${group} ends`);
      return { code: 0 };
    },
    overlaps,
  );
  expect(happened).toEqual(['server begins', 'server ends', 'vm begins', 'vm ends']);
});

it('no step begins after an interrupted one', async () => {
  const begun: string[] = [];
  const { isInterrupted } = await runAll([['pure'], ['vm']], (group) => {
    begun.push(group);
    return Promise.resolve({ code: 130 });
  });
  expect({ isInterrupted, begun }).toEqual({ isInterrupted: true, begun: ['pure'] });
});

it('an error of a group is thrown, also while the next one runs', async () => {
  let isNextBegun = false;
  const failing = runAll(
    [['server'], ['vm']],
    async (group, reportFile) => {
      if (group === 'vm') {
        isNextBegun = true;
        return { code: 0 };
      }
      reportFiles(reportFile).endFile();
      await vi.waitUntil(() => isNextBegun, { timeout: 60_000 });
      throw new Error('no program');
    },
    true,
  );
  await expect(failing).rejects.toThrow('no program');
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
