/**
 * The examples with agents, by the unmodified command lines in VMs. `VOIDBOX_LLM_…` in the environment names a model
 * that plays a script. If `npm run test:agents` gets ANTHROPIC_API_KEY, they also run against Anthropic's model, which
 * has a price. The file and the command are the same.
 */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { Rig, until } from './e2e/rig.ts';
import { Calculator } from './rig/git/calculator.ts';
import { type ModelScript, startFakeModel } from '../bench/fake-model/fake-model.ts';

const EXAMPLES = join(dirname(fileURLToPath(import.meta.url)), '..', 'examples');
const KEYS = { ANTHROPIC_API_KEY: 'sk-ant-of-the-lane', OPENAI_API_KEY: 'sk-of-the-lane' };

/** Until the agents before it have answered, on an emulated CPU. */
const QUESTION_LIMIT_MS = 360_000;

/** For a test with the model that the example names. */
const REAL = { skip: (process.env['ANTHROPIC_API_KEY'] ?? '') === '' };

/** The unchanged example, in a folder in which it finds a repository. */
const example = (rig: Rig, file: string): string => rig.spec(file, readFileSync(join(EXAMPLES, file), 'utf8'));

/** The repository of the examples is the folder of their file; these tests make another one beside it. */
const IN_APP = ['--param', 'repository=./my-app'] as const;

type Variables = Readonly<Record<string, string>>;

const claudeAt = (port: number): Variables => ({ ...KEYS, VOIDBOX_LLM_BASE_URL: `http://127.0.0.1:${port}` });

/** In place of the example's own provider. */
const codexAt = (port: number): Variables => ({
  ...KEYS,
  VOIDBOX_LLM_PROVIDER: 'codex',
  VOIDBOX_LLM_MODEL: 'gpt-5',
  VOIDBOX_LLM_BASE_URL: `http://127.0.0.1:${port}/v1`,
});

/** Waits until the run asks for an approval. @returns its status @throws Error at once if the run ends before */
async function question(rig: Rig, runId: string): Promise<string> {
  let status = '';
  await until(
    'the question',
    QUESTION_LIMIT_MS,
    async () => {
      status = (await rig.cli('status', runId)).stdout;
      if (/^state +(failed|cancelled)/m.test(status)) throw new Error(status);
      return status.includes(`voidbox approve ${runId}`);
    },
    1_000,
  );
  return status;
}

/** @returns the repository, with what the agent did */
async function fixATest(rig: Rig, spec: string): Promise<Calculator> {
  const app = new Calculator(rig.specDir);
  const run = await rig.cli('run', spec, ...IN_APP, '--run-id', 'fix');
  expect(run.code, run.stderr).toBe(0);
  expect(run.stdout).toBe('2 + 3 is 5\n');
  const check = await rig.cli('apply', 'fix', '--check');
  expect(check.code, check.stderr).toBe(0);
  expect(check.stderr).toContain('add.sh');
  expect((await rig.cli('apply', 'fix', '--branch')).code).toBe(0);
  expect(app.git('log', '--format=%s', 'voidbox/fix/test').split('\n').length, 'its commit').toBeGreaterThan(2);
  expect((await rig.cli('apply', 'fix')).code).toBe(0);
  expect(app.test()).toBe('2 + 3 is 5\n');
  await rig.assertNothingLeft();
  return app;
}

const FIXES: ModelScript = ({ turn }) => {
  if (turn === 0) return { saying: 'I look at the test.', run: 'sh ./test.sh; cat add.sh' };
  return turn === 1
    ? { run: 'sed -i s/-/+/ add.sh && git commit -qam "add.sh: it adds" && echo scratch > notes.txt' }
    : { say: 'It subtracted.' };
};

test.each([
  ['claude', claudeAt],
  ['codex', codexAt],
] as const)('fix-a-test.yaml with %s: its patch applies, and its commit comes as a branch', async (_name, at) => {
  await using model = await startFakeModel(FIXES);
  await using rig = new Rig(at(model.port));
  const app = await fixATest(rig, example(rig, 'fix-a-test.yaml'));
  expect(app.git('log', '--format=%s', 'voidbox/fix/test').split('\n')).toContain('add.sh: it adds');
  expect(readFileSync(join(app.folder, 'notes.txt'), 'utf8'), 'what it did not commit comes too').toBe('scratch\n');
});

test('fix-a-test.yaml with the model of its provider', REAL, async () => {
  await using rig = new Rig();
  await fixATest(rig, example(rig, 'fix-a-test.yaml'));
});

async function reviewAPatch(rig: Rig, spec: string): Promise<object> {
  const app = new Calculator(rig.specDir);
  const head = app.git('rev-parse', 'HEAD');
  const run = await rig.cli('run', spec, ...IN_APP, '--run-id', 'review', '--json');
  expect(run.code, run.stderr).toBe(0);
  expect(app.git('rev-parse', 'HEAD'), 'the repository is as it was').toBe(head);
  await rig.assertNothingLeft();
  return JSON.parse((JSON.parse(run.stdout) as { readonly outputText: string }).outputText) as object;
}

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

test.each([
  ['claude', claudeAt],
  ['codex', codexAt],
] as const)(
  'review-a-patch.yaml with %s: three agents side by side, and a fourth reads what they say',
  async (_name, llmAt) => {
    await using model = await startFakeModel(REVIEWS);
    await using rig = new Rig(llmAt(model.port));
    const review = await reviewAPatch(rig, example(rig, 'review-a-patch.yaml'));
    expect(review).toEqual({ verdict: 'change', changes: ['a mistake', 'no test', 'hard to read'] });
  },
);

test('review-a-patch.yaml with the model of its provider', REAL, async () => {
  await using rig = new Rig();
  const review = await reviewAPatch(rig, example(rig, 'review-a-patch.yaml'));
  expect(review).toMatchObject({ verdict: 'change', changes: expect.any(Array) });
});

async function research(rig: Rig, spec: string): Promise<{ readonly answer: string; readonly network: string }> {
  const run = await rig.cli('run', spec, '--run-id', 'research', '--json');
  expect(run.code, run.stderr).toBe(0);
  const { outputText } = JSON.parse(run.stdout) as { readonly outputText: string };
  const { answer } = JSON.parse(outputText) as { readonly answer: string };
  const network = (await rig.cli('logs', 'research', '--network')).stdout;
  await rig.assertNothingLeft();
  return { answer, network };
}

const ASKS_ELSEWHERE: ModelScript = ({ turn }) =>
  turn === 0
    ? { run: 'curl -sS -m 30 https://www.example.com/; echo "curl ended with $?"' }
    : { answer: { answer: 'DNS over TLS', pages: [] } };

test('research.yaml: a host outside of its list is refused, and the log names it', async () => {
  await using model = await startFakeModel(ASKS_ELSEWHERE);
  await using rig = new Rig(claudeAt(model.port));
  const { answer, network } = await research(rig, example(rig, 'research.yaml'));
  expect(answer).toBe('DNS over TLS');
  expect(network).toMatch(/vm research: www\.example\.com:443 refused: /);
  expect(model.requests.at(-1)!.body, 'the agent saw that it was refused').toMatch(/curl ended with 56/);
});

test('research.yaml with the model of its provider', REAL, async () => {
  await using rig = new Rig();
  const { answer } = await research(rig, example(rig, 'research.yaml'));
  expect(answer).toMatch(/\bTLS\b/);
});

/** @returns CHANGELOG.md as the run committed it */
async function releaseNotes(rig: Rig, spec: string, expected: string): Promise<string> {
  const app = new Calculator(rig.specDir);
  app.commit('README.md', 'a calculator\n', 'README.md: what this is');
  await rig.launch(spec, 'notes', ...IN_APP);
  expect(await question(rig, 'notes'), 'who answers sees what the agents wrote').toContain(expected);
  expect((await rig.cli('approve', 'notes')).code).toBe(0);
  expect((await rig.finish('notes')).outcome.state).toBe('succeeded');
  expect((await rig.cli('apply', 'notes', '--branch')).code).toBe(0);
  await rig.assertNothingLeft();
  return app.git('show', 'voidbox/notes/changelog:CHANGELOG.md');
}

test('release-notes.yaml: an agent for each commit, a person, and a commit', async () => {
  await using model = await startFakeModel(({ conversation }) => ({
    say: conversation.includes('what this is') ? 'It is explained.' : 'It calculates.',
  }));
  await using rig = new Rig(claudeAt(model.port));
  const spec = example(rig, 'release-notes.yaml');
  expect(await releaseNotes(rig, spec, 'It is explained.')).toBe('- It is explained.\n- It calculates.\n');
});

test('release-notes.yaml with the model of its provider', REAL, async () => {
  await using rig = new Rig();
  expect(await releaseNotes(rig, example(rig, 'release-notes.yaml'), '')).toMatch(/^- .+\n- .+\n$/);
});

/** @returns its output */
async function reviewFiles(rig: Rig, spec: string): Promise<object> {
  await rig.launch(spec, 'agents');
  await question(rig, 'agents');
  expect((await rig.cli('approve', 'agents')).code).toBe(0);
  expect((await rig.finish('agents', QUESTION_LIMIT_MS)).outcome.state).toBe('succeeded');
  const result = await rig.cli('result', 'agents');
  await rig.assertNothingLeft();
  return JSON.parse(result.stdout) as object;
}

const SKILL = '- style: Write short sentences.';

test.each([
  ['claude', claudeAt],
  ['codex', codexAt],
] as const)(
  'agents.yaml with %s: an agent with a skill for each file, a person, and a report of all',
  async (_name, llmAt) => {
    await using model = await startFakeModel(({ conversation }) => {
      if (!conversation.includes('Sum up these reviews'))
        return { say: `Of ${/(parse|render)\.ts/.exec(conversation)?.[1]}.` };
      return {
        answer: { verdict: ['Of parse.', 'Of render.'].every((said) => conversation.includes(said)) ? 'both' : 'one' },
      };
    });
    await using rig = new Rig(llmAt(model.port));
    expect(await reviewFiles(rig, example(rig, 'agents.yaml'))).toEqual({ verdict: 'both' });
    const reviews = model.requests.filter(({ body }) => body.includes('what to change'));
    expect(reviews.length).toBeGreaterThanOrEqual(2);
    for (const { body } of reviews) expect(body).toContain(SKILL);
  },
);

test('agents.yaml with the model of its provider', REAL, async () => {
  await using rig = new Rig();
  expect(await reviewFiles(rig, example(rig, 'agents.yaml'))).toMatchObject({ verdict: expect.any(String) });
});
