/** The examples with agents, by the unmodified command lines in VMs, against a model that plays a script instead of one that has a price. */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { Rig, until } from './e2e/rig.ts';
import { Calculator } from './rig/calculator.ts';
import { type ModelScript, startFakeModel } from '../bench/fake-model/fake-model.ts';

const EXAMPLES = join(dirname(fileURLToPath(import.meta.url)), '..', 'examples');
const KEYS = { ANTHROPIC_API_KEY: 'sk-ant-of-the-lane', OPENAI_API_KEY: 'sk-of-the-lane' };
const CLAUDE = 'llm: { provider: claude }';

/** The example with `llm` in place of its provider. */
function example(rig: Rig, file: string, llm: string): string {
  const text = readFileSync(join(EXAMPLES, file), 'utf8');
  expect(text, `${file} names its provider`).toContain(CLAUDE);
  return rig.spec(file, text.replaceAll(CLAUDE, `llm: ${llm}`));
}

const claudeAt = (port: number): string => `{ provider: claude, base_url: "http://127.0.0.1:${port}" }`;
const codexAt = (port: number): string => `{ provider: codex, model: gpt-5, base_url: "http://127.0.0.1:${port}/v1" }`;

const FIXES: ModelScript = ({ turn }) => {
  if (turn === 0) return { saying: 'I look at the test.', run: 'sh ./test.sh; cat add.sh' };
  return turn === 1
    ? { run: 'sed -i s/-/+/ add.sh && git commit -qam "add.sh: it adds" && echo scratch > notes.txt' }
    : { say: 'It subtracted.' };
};

test.each([
  ['claude', claudeAt],
  ['codex', codexAt],
] as const)('fix-a-test.yaml with %s: its patch applies, and its commit comes as a branch', async (_name, llmAt) => {
  await using model = await startFakeModel(FIXES);
  await using rig = new Rig(KEYS);
  const app = new Calculator(rig.specDir);
  const spec = example(rig, 'fix-a-test.yaml', llmAt(model.port));
  const run = await rig.cli('run', spec, '--run-id', 'fix');
  expect(run.code, run.stderr).toBe(0);
  expect(run.stdout).toBe('2 + 3 is 5\n');
  const check = await rig.cli('apply', 'fix', '--check');
  expect(check.code, check.stderr).toBe(0);
  expect(check.stderr).toContain('add.sh');
  expect((await rig.cli('apply', 'fix', '--branch')).code).toBe(0);
  expect(app.git('log', '--format=%s', 'voidbox/fix/test').split('\n')).toContain('add.sh: it adds');
  expect((await rig.cli('apply', 'fix')).code).toBe(0);
  expect(app.test()).toBe('2 + 3 is 5\n');
  expect(readFileSync(join(app.folder, 'notes.txt'), 'utf8'), 'what it did not commit comes too').toBe('scratch\n');
  await rig.assertNothingLeft();
});

const REVIEWS: ModelScript = ({ turn, conversation }) => {
  if (conversation.includes('Merge them')) {
    const reviews = ['a mistake', 'no test', 'hard to read'].filter((words) => conversation.includes(words));
    return { answer: { verdict: 'change', changes: reviews } };
  }
  if (turn === 0) return { run: 'git show --stat --format=%s' };
  if (!conversation.includes('a calculator')) return { say: 'there is no commit' };
  if (conversation.includes('Name each mistake')) return { say: 'a mistake' };
  return { say: conversation.includes('no test covers') ? 'no test' : 'hard to read' };
};

test('review-a-patch.yaml: three agents side by side read the commit, and the fourth reads what they say', async () => {
  await using model = await startFakeModel(REVIEWS);
  await using rig = new Rig(KEYS);
  const app = new Calculator(rig.specDir);
  const head = app.git('rev-parse', 'HEAD');
  const spec = example(rig, 'review-a-patch.yaml', claudeAt(model.port));
  const run = await rig.cli('run', spec, '--run-id', 'review', '--json');
  expect(run.code, run.stderr).toBe(0);
  const { outputText } = JSON.parse(run.stdout) as { readonly outputText: string };
  expect(JSON.parse(outputText)).toEqual({ verdict: 'change', changes: ['a mistake', 'no test', 'hard to read'] });
  expect(app.git('rev-parse', 'HEAD'), 'the repository is as it was').toBe(head);
  await rig.assertNothingLeft();
});

const ASKS_ELSEWHERE: ModelScript = ({ turn }) =>
  turn === 0
    ? { run: 'curl -sS -m 30 https://www.example.com/; echo "curl ended with $?"' }
    : { answer: { answer: 'DNS over TLS', pages: [] } };

test('research.yaml: what is not on its list is refused, and the log says so', async () => {
  await using model = await startFakeModel(ASKS_ELSEWHERE);
  await using rig = new Rig(KEYS);
  const spec = example(rig, 'research.yaml', claudeAt(model.port));
  const run = await rig.cli('run', spec, '--run-id', 'research', '--json');
  expect(run.code, run.stderr).toBe(0);
  const { outputText } = JSON.parse(run.stdout) as { readonly outputText: string };
  expect(JSON.parse(outputText)).toEqual({ answer: 'DNS over TLS', pages: [] });
  const network = await rig.cli('logs', 'research', '--network');
  expect(network.stdout).toMatch(/vm research: www\.example\.com:443 refused: /);
  expect(model.requests.at(-1)!.body, 'the agent saw that it was refused').toMatch(/curl ended with 56/);
  await rig.assertNothingLeft();
});

test('release-notes.yaml: an agent for each commit, a person, and a commit', async () => {
  await using model = await startFakeModel(({ conversation }) => ({
    say: conversation.includes('what this is') ? 'It is explained.' : 'It calculates.',
  }));
  await using rig = new Rig(KEYS);
  const app = new Calculator(rig.specDir);
  app.commit('README.md', 'a calculator\n', 'README.md: what this is');
  await rig.launch(example(rig, 'release-notes.yaml', claudeAt(model.port)), 'notes');
  const asked = async (): Promise<string> => (await rig.cli('status', 'notes')).stdout;
  await until('the question', 240_000, async () => (await asked()).includes('voidbox approve notes'), 1_000);
  expect(await asked(), 'who answers sees what the agents wrote').toContain('It is explained.');
  expect((await rig.cli('approve', 'notes')).code).toBe(0);
  expect((await rig.finish('notes')).outcome.state).toBe('succeeded');
  expect((await rig.cli('apply', 'notes', '--branch')).code).toBe(0);
  expect(app.git('show', 'voidbox/notes/changelog:CHANGELOG.md')).toBe('- It is explained.\n- It calculates.\n');
  await rig.assertNothingLeft();
});
