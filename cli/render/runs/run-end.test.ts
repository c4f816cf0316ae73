import { expect, test } from 'vitest';
import { toErrorCode } from '../../../domain/errors/error-code.ts';
import { renderRunEnd } from './run-end.ts';
import { FAILED_RUN, run, stage, START_MS } from '../../../test/rig/runs/run-view.ts';
import { PLAIN } from '../text/style.ts';

const end = (view: Parameters<typeof renderRunEnd>[0], folder: string | null = '/state/runs/r'): string[] =>
  renderRunEnd(view, { style: PLAIN, nowMs: START_MS + 9_000, advise: (text) => text, folder });

test('a success is one line', () => {
  const view = run([stage('a', { state: 'succeeded' })], {
    state: 'succeeded',
    finishedAtMs: START_MS + 2_000,
    outcome: { state: 'succeeded', failedStage: null, failure: null, output: null },
  });
  expect(end(view)).toEqual(['sales-20260304-050607-ab12 succeeded (1 stage: 1 succeeded · 2.0 s)']);
});

test('a failure says what, where, its last words made safe, and what to type', () => {
  expect(end(FAILED_RUN)).toEqual([
    'sales-20260304-050607-ab12 failed (2 stages: 1 failed, 1 skipped · 2.5 s)',
    '',
    'stage build (attempt 2) failed: ended with exit code 2 (stage/exit-nonzero)',
    '  last lines of its standard error:',
    '  │ make: *** no rule',
    '  │ boom',
    "  help: Read the stage's last lines with `voidbox logs sales-20260304-050607-ab12`, fix the command and run again.",
    '',
    'Next:',
    '  voidbox logs sales-20260304-050607-ab12 --stage build',
    '  voidbox status sales-20260304-050607-ab12',
    '  voidbox retry sales-20260304-050607-ab12',
    'All of it: /state/runs/r',
  ]);
});

test('a failure says in what VM it was, and how far it came', () => {
  const failure = { code: 'stage/timeout', message: 'ran past 2 s', stderrTail: '' } as const;
  const failed = stage('a', {
    state: 'failed',
    failure,
    isolation: 'microvm',
    vmm: 'qemu',
    accelerator: 'kvm',
    durationMs: 2_000,
  });
  const outcome = { state: 'failed', failedStage: 'a', failure, output: null } as const;
  expect(end(run([failed], { state: 'failed', outcome }))).toContain('  in a VM: microvm, qemu, kvm, after 2.0 s');
});

test.each([
  ['stage/items-failed', 'r1', ['voidbox status r1`', 'voidbox logs r1 --stage']],
  ['part/failed', 'r1', ['voidbox logs r1 --stage', 'voidbox retry r1 --from PART']],
  ['stage/exit-nonzero', '-r1', ["voidbox logs -- '-r1'`"]],
  ['part/failed', '-r1', ["voidbox logs --stage STAGE -- '-r1'`", "voidbox retry --from PART -- '-r1'`"]],
] as const)('the remedy of %s has the id of the run %s in its commands', (code, runId, commands) => {
  const failure = { code, message: 'no', stderrTail: '' };
  const outcome = { state: 'failed', failedStage: 'a', failure, output: null } as const;
  const text = end({ ...run([stage('a', { state: 'failed', failure })], { state: 'failed', outcome }), runId }).join(
    '\n',
  );
  for (const command of commands) expect(text).toContain(command);
  expect(text).not.toMatch(/\bRUN\b/);
});

test('the next commands of a run whose id begins with a hyphen have their options before it', () => {
  const failure = { code: 'stage/timeout', message: 'ran past 2 s', stderrTail: '' } as const;
  const outcome = { state: 'failed', failedStage: 'a', failure, output: null } as const;
  const failed = { state: 'failed', outcome, agents: ['a'], hasSaves: true } as const;
  const lines = end({ ...run([stage('a', { state: 'failed', failure })], failed), runId: '-r1' });
  expect(lines).toContain("  voidbox logs --stage a -- '-r1'");
  expect(lines).toContain("  voidbox retry -- '-r1'");
  expect(lines).toContain("  voidbox retry --continue -- '-r1'");
});

test('a run whose agent failed after a save names the command that continues it, and no other run does', () => {
  const failure = { code: 'stage/timeout', message: 'ran past 2 s', stderrTail: '' } as const;
  const outcome = { state: 'failed', failedStage: 'a', failure, output: null } as const;
  const of = (id: string, hasSaves: boolean): string[] =>
    end(
      run([stage(id, { state: 'failed', failure }), stage('b', { state: 'succeeded' })], {
        state: 'failed',
        outcome,
        agents: ['a', 'b', 'fixes.work'],
        ...(hasSaves ? { hasSaves } : {}),
      }),
    );
  const line = '  voidbox retry sales-20260304-050607-ab12 --continue';
  for (const id of ['a', 'fixes']) expect(of(id, true)).toContain(line);
  expect([of('a', false).includes(line), of('c', true).includes(line)]).toEqual([false, false]);
});

test('a run that was not admitted has no stage and still says why', () => {
  const view = run([], {
    state: 'failed',
    startedAtMs: null,
    outcome: {
      state: 'failed',
      failedStage: null,
      failure: { code: 'admit/mount-refused', message: '/etc is not allowed', stderrTail: '' },
      output: null,
    },
  });
  expect(end(view)[0]).toBe('sales-20260304-050607-ab12 failed');
  // There is nothing to be taken of it.
  expect(end(view).at(-1)).toBe('  voidbox status sales-20260304-050607-ab12');
  expect(end(view).slice(2, 4)).toEqual([
    'the run failed: /etc is not allowed (admit/mount-refused)',
    "  help: Create the folder on the worker's host and allow it with `voidbox worker --allow-mounts FOLDER`; on the embedded server, use a folder below the spec's folder, or `voidbox run FILE --allow-mounts FOLDER`. Allow a repository of the network with `--allow-git HOST/PATH`.",
  ]);
});

test('a run that ended for a reason of its own says it beside what failed in it', () => {
  const failure = {
    code: 'run/terminated',
    message: "the run's workflow was ended from outside: moving house",
    stderrTail: '',
  } as const;
  const view = {
    ...FAILED_RUN,
    state: 'terminated' as const,
    outcome: { state: 'terminated' as const, failedStage: null, failure, output: null },
  };
  expect(end(view).filter((line) => line.includes('failed: '))).toEqual([
    "the run failed: the run's workflow was ended from outside: moving house (run/terminated)",
    'stage build (attempt 2) failed: ended with exit code 2 (stage/exit-nonzero)',
  ]);
});

test('a code of a later build has no remedy and does no harm', () => {
  const view = run([], {
    state: 'failed',
    outcome: {
      state: 'failed',
      failedStage: null,
      failure: { code: toErrorCode('toString'), message: 'm', stderrTail: '' },
      output: null,
    },
  });
  expect(end(view).join('\n')).not.toContain('help:');
});

test('a terminated run says where to look', () => {
  const view = run([stage('a', { state: 'cancelled' })], {
    state: 'terminated',
    outcome: { state: 'terminated', failedStage: null, failure: null, output: null },
  });
  expect(end(view)).toEqual([
    'sales-20260304-050607-ab12 terminated (1 stage: 1 cancelled · 9.0 s)',
    '',
    'Next:',
    '  voidbox logs sales-20260304-050607-ab12',
    '  voidbox status sales-20260304-050607-ab12',
    '  voidbox retry sales-20260304-050607-ab12',
    'All of it: /state/runs/r',
  ]);
});

test('a run that no disk of this host keeps has no folder to look into', () => {
  expect(end(FAILED_RUN, null)).toEqual(end(FAILED_RUN).slice(0, -1));
});
