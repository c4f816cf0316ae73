/** A git repository in real VMs, as a user meets it: packed, worked in by a command and an agent, handed on, and back. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { Rig } from './rig.ts';

function git(cwd: string, ...args: string[]): string {
  const identity = ['-c', 'user.name=a', '-c', 'user.email=a@b', '-c', 'init.defaultBranch=main'];
  return execFileSync('git', [...identity, ...args], { cwd, stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8' });
}

const script = (text: string): string => JSON.stringify(text);
const scripted = (steps: readonly object[]): string => `'${JSON.stringify(steps).replaceAll("'", "''")}'`;

/**
 * The guest's configuration names programs in every place that git allows; on the host each of them would leave the
 * canary.
 */
const spec = (canary: string): string => `api_version: v1
kind: pipeline
name: fix
pipeline:
  boxes:
    - name: fix
      workspace: { git: ./app, include_dirty: true }
      run:
        program: sh
        args:
          - -c
          - ${script(`set -e
cat dirty.txt
test -z "$(git diff-files --name-only)" && test -z "$(git status --porcelain)" && git fsck --strict >&2
git log --format=%s
printf 'new\\n' > b.txt
printf '\\000\\377\\r\\n' > blob
chmod +x run.sh
git add b.txt && git commit -qm 'by the guest'
printf '* filter=x diff=x merge=x\\n' > .gitattributes
for key in core.fsmonitor core.pager core.sshCommand diff.external filter.x.smudge diff.x.textconv diff.x.command merge.x.driver
do git config $key 'touch ${canary}'; done
mkdir -p .git/hooks
for hook in pre-commit post-checkout reference-transaction post-index-change
do printf '#!/bin/sh\\ntouch ${canary}\\n' > .git/hooks/$hook; chmod +x .git/hooks/$hook; done
`)}
    - name: agent
      workspace: { from: fix, guest: /home/sandbox/app }
      llm: { provider: claude }
      prompt: Remove the file.
      skills: [{ name: style, content: Write short sentences. }, { command: market-mcp }]
      env:
        MOCK_AGENT_SCRIPT: ${scripted([{ run: 'pwd && git rm -q a.txt && ls' }, { result: 'Removed.' }])}
`;

test('a command and an agent change it one after the other; the worker dies in between, and nothing of the guest runs here', async () => {
  await using rig = new Rig();
  const app = join(rig.specDir, 'app');
  const canary = join(rig.specDir, 'canary');
  mkdirSync(app);
  git(app, 'init', '-q');
  writeFileSync(join(app, 'a.txt'), 'one\n');
  writeFileSync(join(app, 'run.sh'), '#!/bin/sh\n');
  symlinkSync('a.txt', join(app, 'link'));
  git(app, 'add', '.');
  git(app, 'commit', '-qm', 'first');
  writeFileSync(join(app, 'dirty.txt'), 'dirty\n');
  const head = git(app, 'rev-parse', 'HEAD');

  await rig.launch(rig.spec('spec.yaml', spec(canary)), 'workspace', '--mock-agents');
  await rig.eventOf('workspace', 'vm-ready');
  rig.kill((await rig.liveStack()).workerPid);
  const finished = await rig.finish('workspace');
  expect(finished.outcome, await rig.output('workspace', 'fix', 'stderr')).toMatchObject({ state: 'succeeded' });
  expect(await rig.output('workspace', 'fix')).toMatch(
    /^dirty\nChanges that were not committed when the run began\nfirst\n/,
  );

  for (const name of ['agent.changes.patch', 'agent.changes.bundle', 'agent.base.bundle'])
    expect((await rig.cli('artifacts', 'workspace', 'get', name)).code, name).toBe(0);
  const patch = readFileSync(join(rig.specDir, 'agent.changes.patch'), 'utf8');
  expect(patch).toContain('GIT binary patch');
  expect(patch).toContain('deleted file mode 100644');
  expect(patch).toContain('new mode 100755');
  // The agent's skills lie in the repository, and are no part of it.
  const raw = await rig.cli('logs', 'workspace', '--stage', 'agent', '--raw');
  expect(JSON.parse(raw.stdout.split('\n')[0]!)).toMatchObject({
    cwd: '/home/sandbox/app',
    skills: ['style'],
    mcp_servers: [{ name: 'market-mcp' }],
  });
  for (const text of ['Write short', 'SKILL.md', 'market-mcp', 'settings.json']) expect(patch).not.toContain(text);
  // Its base contains the author's uncommitted file, and the patch does not.
  expect(patch).not.toContain('dirty.txt');
  git(app, 'apply', '--check', join(rig.specDir, 'agent.changes.patch'));
  git(app, 'fetch', '-q', join(rig.specDir, 'agent.changes.bundle'), 'refs/heads/voidbox:refs/heads/taken');
  expect(git(app, 'log', '--format=%s', 'taken').split('\n').slice(0, 3)).toEqual([
    'Not committed by stage agent of run workspace',
    'Not committed by stage fix of run workspace',
    'by the guest',
  ]);
  expect(git(app, 'rev-parse', 'HEAD')).toBe(head);
  expect(existsSync(canary)).toBe(false);
  await rig.assertNothingLeft();
});
