/** An agent that fails at its time limit, in real VMs: its changes are kept, and a retry continues its session. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { Rig } from './rig.ts';

function git(cwd: string, ...args: string[]): string {
  const identity = ['-c', 'user.name=a', '-c', 'user.email=a@b', '-c', 'init.defaultBranch=main'];
  return execFileSync('git', [...identity, ...args], { cwd, stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8' });
}

const scripted = (steps: readonly object[]): string => `'${JSON.stringify(steps).replaceAll("'", "''")}'`;

const CHANGE = ['echo one >> a.txt', 'git commit -qam committed', 'echo new > new.txt', 'rm gone.txt'];
/** Fails if the first step was repeated, or if a part of its work is lost. */
const SECOND = [
  'test "$(grep -c one a.txt)" = 1',
  'test "$(cat new.txt)" = new',
  'test ! -e gone.txt',
  'echo two > b.txt',
];
const CHECK = ['test "$(git log -1 --format=%s)" = committed', 'test "$(cat b.txt)" = two'];

const SPEC = `api_version: v1
kind: pipeline
name: fix
pipeline:
  boxes:
    - name: fix
      prompt: Fix it.
      workspace: { git: ./app }
      llm: { provider: codex }
      timeout_secs: 15
      env:
        MOCK_AGENT_SCRIPT: ${scripted([
          { run: CHANGE.join(' && ') },
          { sleep_ms: 25_000 },
          { run: SECOND.join(' && ') },
          { sleep_ms: 10_000 },
          { run: CHECK.join(' && ') },
          { result: 'done' },
        ])}
`;

test('an agent that fails at its time limit leaves a patch, and a retry continues its session and its files', async () => {
  await using rig = new Rig();
  const app = join(rig.specDir, 'app');
  mkdirSync(app);
  git(app, 'init', '-q');
  writeFileSync(join(app, 'a.txt'), 'zero\n');
  writeFileSync(join(app, 'gone.txt'), 'gone\n');
  git(app, 'add', '.');
  git(app, 'commit', '-qm', 'first');
  await rig.launch(rig.spec('spec.yaml', SPEC), 'work', '--mock-agents');
  const { outcome } = await rig.finish('work');
  expect(outcome, JSON.stringify(outcome)).toMatchObject({ state: 'failed', failure: { code: 'stage/timeout' } });

  expect((await rig.cli('apply', 'work')).code).not.toBe(0);
  const applied = await rig.cli('apply', 'work', '--partial');
  expect(applied.code, applied.stderr).toBe(0);
  expect(readFileSync(join(app, 'a.txt'), 'utf8')).toBe('zero\none\n');
  expect(git(app, 'status', '--porcelain')).toBe(' M a.txt\n D gone.txt\n?? new.txt\n');
  git(app, 'checkout', '-q', '.');

  const retried = await rig.cli('retry', 'work', '--continue', '--agent-timeout', '5m', '--run-id', 'again', '-d');
  expect(retried.code, retried.stderr).toBe(0);
  // The commit's file counts, as do the files of the repository that are not committed.
  expect(retried.stderr).toMatch(
    / {2}continues: fix, with its session of \d+ turns?, 2 changed files, 1 deleted file, saved \d+s ago\n/,
  );
  expect(retried.stderr).toContain('  limits of fix: 5m 00s (before: 15.0 s)\n');

  // The save of this run, after the second step.
  const own = await rig.eventOf('again', 'stage-progress');
  rig.kill((await rig.keeperOf('fix')).pid);
  const again = await rig.finish('again');
  expect(again.outcome, JSON.stringify(again.outcome)).toMatchObject({ state: 'succeeded' });
  const events = (await rig.events('again')).map(({ body }) => body);
  expect(events.flatMap((body) => (body.type === 'stage-resumed' ? [body] : []))).toMatchObject([
    { execKey: 'fix/0/1', from: 'fix/0/1', runId: 'work' },
    { execKey: 'fix/0/2', from: own.execKey },
  ]);
  const tools = events.flatMap((body) => (body.type === 'agent-tool' ? [body] : []));
  expect(tools.map(({ detail, failed }) => [detail.slice(0, 20), failed])).toEqual([
    [SECOND[0]!.slice(0, 20), false],
    [CHECK[0]!.slice(0, 20), false],
  ]);
  expect((await rig.cli('logs', 'again')).stdout).toMatch(
    /fix continues from the state of its agent at .* in run work/,
  );
  expect((await rig.cli('artifacts', 'again', 'get', 'fix.changes.patch')).code).toBe(0);
  const patch = readFileSync(join(rig.specDir, 'fix.changes.patch'), 'utf8');
  for (const line of ['+one', '+new', '+two', 'deleted file mode 100644']) expect(patch).toContain(line);
  await rig.assertNothingLeft();
});
