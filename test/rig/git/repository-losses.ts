/**
 * An agent's VM is lost in the middle of its work in a git repository, between a commit and the rest. The work
 * continues in another VM, and the patch contains all of it.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { FakeModel, ModelScript } from '../../../bench/fake-model/fake-model.ts';
import { type Rig, until } from '../../e2e/rig.ts';

const PROMPT = 'Change the repository and answer.';

const RESULT = '42nd call';
const LOST = 'The machine that you worked on was lost';

/**
 * A commit, a changed file and a new one. The second call sees them in another VM, and adds a file. The script decides
 * only by the text of the conversation, because command lines add turns of their own to a session that continues.
 */
export const CHANGES_IN_TWO_VMS: ModelScript = ({ conversation }) => {
  if (conversation.includes('committed\\\\nfirst') || conversation.includes('committed\\nfirst'))
    return { say: 'It is changed.' };
  if (conversation.includes(LOST))
    return { run: 'git log --format=%s > log.txt; git status --porcelain >> log.txt; cat log.txt' };
  if (conversation.includes(RESULT)) return [60_000, { say: 'too late' }];
  return {
    run: 'echo two > a.txt; git commit -qam committed; echo three > b.txt; echo new > new.txt; echo $((40 + 2))nd call',
  };
};

/** @param llm  the `llm` of the spec, which calls the model */
export async function loseInRepository(rig: Rig, model: FakeModel, llm: string): Promise<void> {
  const app = join(rig.specDir, 'app');
  mkdirSync(app);
  const git = (...args: readonly string[]): string =>
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { cwd: app, encoding: 'utf8' });
  git('init', '-q');
  for (const name of ['a.txt', 'b.txt']) writeFileSync(join(app, name), 'one\n');
  git('add', '.');
  git('commit', '-qm', 'first');
  const spec = `api_version: v1
kind: pipeline
name: change
llm: ${llm}
pipeline:
  boxes:
    - name: change
      prompt: ${PROMPT}
      workspace: { git: ./app }
      skills: [{ name: style-3e9, content: Write short sentences. }]
`;
  await rig.launch(rig.spec('spec.yaml', spec), 'change');
  await rig.eventOf('change', 'stage-progress', 300_000);
  const asksOf = (): readonly string[] =>
    model.requests.map(({ body }) => body).filter((body) => body.includes(PROMPT));
  await until('the call that is lost', 60_000, () => asksOf().some((body) => body.includes(RESULT)));
  rig.kill((await rig.keeperOf('change')).pid);
  const { outcome } = await rig.finish('change', 300_000);
  expect(outcome.state, JSON.stringify(outcome)).toBe('succeeded');

  const events = (await rig.events('change')).map(({ body }) => body);
  for (const type of ['vm-lost', 'stage-resumed']) expect(events.filter((body) => body.type === type)).toHaveLength(1);
  expect(events.filter(({ type }) => type === 'agent-tool')).toHaveLength(2);
  const asked = asksOf();
  // The second call, in which the VM was lost, is repeated with the text about the loss; the first call is not.
  expect(asked.map((body) => [body.includes(RESULT), body.includes(LOST)])).toEqual([
    [false, false],
    [true, false],
    [true, true],
    [true, true],
  ]);
  for (const body of asked) expect(body).toContain('- style-3e9: Write short sentences.');

  expect((await rig.cli('apply', 'change', '--branch')).code).toBe(0);
  expect(git('log', '--format=%s', 'voidbox/change/change').split('\n')).toContain('committed');
  expect((await rig.cli('apply', 'change')).code).toBe(0);
  const read = (name: string): string => readFileSync(join(app, name), 'utf8');
  expect([read('a.txt'), read('b.txt'), read('new.txt')]).toEqual(['two\n', 'three\n', 'new\n']);
  expect(read('log.txt')).toBe('committed\nfirst\n M b.txt\n?? log.txt\n?? new.txt\n');
  expect(git('status', '--porcelain')).toBe(' M a.txt\n M b.txt\n?? log.txt\n?? new.txt\n');
  await rig.assertNothingLeft();
}
