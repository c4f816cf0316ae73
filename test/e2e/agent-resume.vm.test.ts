/** Agents whose VM is lost in the middle of their work: finished work is not repeated. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { useRig } from './shared-rig.ts';

const theRig = useRig();

const scripted = (steps: readonly object[]): string => `'${JSON.stringify(steps).replaceAll("'", "''")}'`;

const WORK = `api_version: v1
kind: pipeline
name: work
sandbox: { memory_mb: 256 }
pipeline:
  boxes:
    - name: work
      prompt: Work.
      llm: { provider: codex }
      env:
        MOCK_AGENT_SCRIPT: ${scripted([
          { run: 'echo first >> log.txt' },
          { sleep_ms: 6_000 },
          { run: 'test "$(grep -c first log.txt)" = 1' },
          { result: 'done' },
        ])}
`;

test('its VM is lost: the agent continues in another one, with its session and its files, and repeats nothing', async () => {
  const rig = theRig();
  await rig.launch(rig.spec('spec.yaml', WORK), 'lost', '--mock-agents');
  const saved = await rig.eventOf('lost', 'stage-progress');
  expect(saved.folders.map(({ guestPath }) => guestPath).sort()).toEqual([
    '/home/sandbox/.codex/sessions',
    '/workspace',
  ]);
  rig.kill((await rig.keeperOf('work')).pid);
  expect((await rig.finish('lost')).outcome.state).toBe('succeeded');

  const events = (await rig.events('lost')).map(({ body }) => body);
  expect(events.filter(({ type }) => type === 'vm-lost')).toHaveLength(1);
  expect(events.flatMap((body) => (body.type === 'stage-resumed' ? [body] : []))).toMatchObject([
    { stage: 'work', from: saved.execKey },
  ]);
  const tools = events.flatMap((body) => (body.type === 'agent-tool' ? [body] : []));
  expect(tools.map(({ detail, failed }) => [detail.slice(0, 4), failed])).toEqual([
    ['echo', false],
    ['test', false],
  ]);
  const log = await rig.cli('logs', 'lost');
  expect(log.stdout).toMatch(/work continues from the state of its agent at/);
});

const CHANGE = [
  'echo changed > a.txt',
  'git commit -qam one',
  'rm gone.txt',
  'echo new > new.txt',
  'mkdir node_modules',
  'head -c 17825792 /dev/zero > node_modules/lib',
];
const CHECK = [
  'grep -q changed a.txt',
  'test ! -e gone.txt',
  'grep -q new new.txt',
  'test "$(git log -1 --format=%s)" = one',
  'test "$(git status --porcelain | sort | tr "\\n" ,)" = " D gone.txt,?? new.txt,"',
  'test ! -e node_modules',
  'test "$(wc -c < large)" = 73400320',
  'grep -q short ~/.agents/skills/style/SKILL.md',
];
const REPOSITORY = `api_version: v1
kind: pipeline
name: repository
pipeline:
  boxes:
    - name: work
      prompt: Work.
      workspace: { git: ./app }
      skills: [{ name: style, content: Write short sentences. }]
      llm: { provider: codex }
      env:
        MOCK_AGENT_SCRIPT: ${scripted([
          { run: CHANGE.join(' && ') },
          { sleep_ms: 10_000 },
          { run: CHECK.join(' && ') },
          { result: 'done' },
        ])}
`;

test('the changes of a repository that is too large for a save are saved, and applied to a fresh checkout', async () => {
  const rig = theRig();
  const app = join(rig.specDir, 'app');
  mkdirSync(app);
  const git = (...args: string[]): void => {
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { cwd: app, stdio: 'ignore' });
  };
  git('init', '-q');
  writeFileSync(join(app, 'a.txt'), 'one\n');
  writeFileSync(join(app, 'gone.txt'), 'gone\n');
  writeFileSync(join(app, '.gitignore'), 'node_modules\n');
  // Larger than the limit for a saved folder.
  writeFileSync(join(app, 'large'), Buffer.alloc(70 * 1024 * 1024, 'large\n'));
  git('add', '.');
  git('commit', '-qm', 'first');
  await rig.launch(rig.spec('spec.yaml', REPOSITORY), 'changes', '--mock-agents');
  const saved = await rig.eventOf('changes', 'stage-progress');
  const folder = saved.folders.find(({ guestPath }) => guestPath === '/workspace')!;
  expect(folder).toMatchObject({ changes: { leftOut: ['node_modules/'], leftOutCount: 1 } });
  expect(folder.ref.sizeBytes).toBeLessThan(1024 * 1024);
  rig.kill((await rig.keeperOf('work')).pid);
  const { outcome } = await rig.finish('changes');
  expect(outcome.state, JSON.stringify(outcome)).toBe('succeeded');

  const events = (await rig.events('changes')).map(({ body }) => body);
  expect(events.filter(({ type }) => type === 'vm-lost')).toHaveLength(1);
  const tools = events.flatMap((body) => (body.type === 'agent-tool' ? [body] : []));
  expect(tools.map(({ detail, failed }) => [detail.slice(0, 4), failed])).toEqual([
    ['echo', false],
    ['grep', false],
  ]);
  expect((await rig.cli('logs', 'changes')).stdout).toContain('(node_modules/) were not saved');
  expect((await rig.cli('artifacts', 'changes', 'get', 'work.changes.patch')).code).toBe(0);
  const patch = readFileSync(join(rig.specDir, 'work.changes.patch'), 'utf8');
  for (const line of ['+changed', '+new', 'deleted file mode 100644']) expect(patch).toContain(line);
  expect(patch).not.toContain('short sentences');
});
