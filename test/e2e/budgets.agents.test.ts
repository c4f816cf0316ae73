/** The unmodified command lines of Codex and Claude overrun their budgets: each is stopped at the call that crosses the limit. */
import { expect, test } from 'vitest';
import { type FakeModel, type ModelScript, startFakeModel } from '../../bench/fake-model/fake-model.ts';
import { Rig } from './rig.ts';

const KEYS = { OPENAI_API_KEY: 'sk-of-the-lane', ANTHROPIC_API_KEY: 'sk-ant-of-the-lane' };

/** The model never answers; each call of the tool takes long enough for the session file to be read. */
const ENDLESS: ModelScript = ({ turn }) => ({ run: `echo ${turn} >> lines.txt; sleep 3` });

/** Counts calls of the model, because both command lines also ask their server for other things. */
const callsOf = ({ requests }: FakeModel): number =>
  requests.filter(({ path, body }) => /\/(?:messages|responses)$/.test(path) && body.includes('Never end')).length;

interface Told {
  readonly id: string;
  readonly state: string;
  readonly failure: { readonly code: string; readonly message: string } | null;
  readonly usage: Readonly<Record<string, number>>;
}

async function toldBy(rig: Rig, name: string, spec: string): Promise<Readonly<Record<string, Told>>> {
  const run = await rig.cli('run', rig.spec('spec.yaml', spec), '--run-id', name, '--json');
  const { stages } = JSON.parse(run.stdout) as { readonly stages: readonly Told[] };
  return Object.fromEntries(stages.map((stage) => [stage.id, stage]));
}

const PRICE = 'price: { input: 100, cached_input: 100, output: 100 }';

const codexOf = (port: number): string =>
  `llm: { provider: codex, model: gpt-5, base_url: "http://127.0.0.1:${port}/v1", ${PRICE} }`;
const claudeOf = (port: number, more = `, ${PRICE}`): string =>
  `llm: { provider: claude, base_url: "http://127.0.0.1:${port}"${more} }`;

test('codex overruns its tokens, though its stream tells nothing before the end of a turn', async () => {
  await using model = await startFakeModel(ENDLESS);
  await using rig = new Rig(KEYS);
  const { one } = await toldBy(
    rig,
    'codex-tokens',
    `api_version: v1
kind: agent
name: one
${codexOf(model.port)}
agent: { prompt: Never end., budget: { max_tokens: 2500 } }
`,
  );
  expect(one).toMatchObject({ state: 'failed', failure: { code: 'agent/budget-tokens' } });
  const { inputTokens = 0, outputTokens = 0, turns = 0 } = one!.usage;
  const ofCall = (inputTokens + outputTokens) / turns;
  // The call that crosses the limit is the last one that counts, and at most one more call had begun.
  expect(inputTokens + outputTokens).toBeGreaterThan(2_500);
  expect(inputTokens + outputTokens - ofCall).toBeLessThanOrEqual(2_500);
  expect(callsOf(model) - turns).toBeLessThanOrEqual(1);
  await rig.assertNothingLeft();
});

test('claude overruns its turns, and its cost by the price of the spec', async () => {
  await using turns = await startFakeModel(ENDLESS);
  await using cost = await startFakeModel(ENDLESS);
  await using rig = new Rig(KEYS);
  const told = await toldBy(
    rig,
    'claude',
    `api_version: v1
kind: pipeline
name: claude
pipeline:
  boxes:
    - { name: turns, continue_on_error: true, prompt: Never end., ${claudeOf(turns.port, '')}, budget: { max_turns: 2 } }
    - { name: cost, prompt: Never end., ${claudeOf(cost.port)}, budget: { max_cost_usd: 0.25 } }
`,
  );
  expect(told['turns']).toMatchObject({ state: 'failed', failure: { code: 'agent/budget-turns' } });
  expect(callsOf(turns)).toBeLessThanOrEqual(3);
  expect(told['cost']).toMatchObject({ state: 'failed', failure: { code: 'agent/budget-cost' } });
  // A call costs about $0.14: the second one crosses the limit.
  expect(told['cost']!.usage).toMatchObject({ turns: 2 });
  expect(callsOf(cost)).toBeLessThanOrEqual(3);
  await rig.assertNothingLeft();
});

test('claude ends itself by the prices that it knows, if the spec has no price', async () => {
  await using model = await startFakeModel(ENDLESS);
  await using rig = new Rig(KEYS);
  const llm = claudeOf(model.port, ', model: claude-opus-4-5');
  const { one } = await toldBy(
    rig,
    'own-prices',
    `api_version: v1
kind: agent
name: one
${llm}
agent: { prompt: Never end., budget: { max_cost_usd: 0.01 } }
`,
  );
  expect(one).toMatchObject({ state: 'failed', failure: { code: 'agent/budget-cost' } });
  // The last line is from the command line itself, which knows the limit and keeps it.
  const printed = (await rig.cli('logs', 'own-prices', '--raw')).stdout.trimEnd().split('\n');
  expect(JSON.parse(printed.at(-1)!)).toMatchObject({
    type: 'result',
    subtype: 'error_max_budget_usd',
    is_error: true,
  });
  // A call costs about half a cent.
  expect(one!.usage['costUsd']).toBeGreaterThan(0.01);
  expect(one!.usage['costUsd']).toBeLessThan(0.03);
  expect(callsOf(model)).toBeLessThanOrEqual(4);
  await rig.assertNothingLeft();
});

test('dollars that claude invents for a model that it does not know are no cost, and stop no agent as a cost', async () => {
  await using endless = await startFakeModel(ENDLESS);
  await using quick = await startFakeModel(() => ({ say: 'done' }));
  await using rig = new Rig(KEYS);
  // Its name looks like a model that Claude Code knows.
  const llm = (port: number): string => claudeOf(port, ', model: claude-finetune-7');
  const told = await toldBy(
    rig,
    'guessed',
    `api_version: v1
kind: pipeline
name: guessed
pipeline:
  boxes:
    - { name: endless, continue_on_error: true, prompt: Never end., ${llm(endless.port)}, budget: { max_cost_usd: 0.01 } }
    - { name: quick, prompt: Never end., ${llm(quick.port)}, budget: { max_cost_usd: 0.01 } }
`,
  );
  expect(told['endless']).toMatchObject({ state: 'failed', failure: { code: 'agent/budget-unknown' } });
  expect(told['endless']!.failure!.message).toContain('claude has no price for the model "claude-finetune-7"; write');
  expect(callsOf(endless)).toBeLessThanOrEqual(4);
  expect(told['quick']).toMatchObject({ state: 'succeeded' });
  for (const name of ['endless', 'quick']) {
    expect(told[name]!.usage['turns']).toBeGreaterThan(0);
    expect(told[name]!.usage).not.toHaveProperty('costUsd');
  }
  const { stdout } = await rig.cli('status', 'guessed');
  expect(stdout).not.toMatch(/\$0\.\d*[1-9]\d* of/);
  expect(stdout).toContain('$? of $0.01');
  const logged = (await rig.cli('logs', 'guessed')).stdout;
  expect(logged).toContain('the cost of the agent of stage quick is unknown');
  await rig.assertNothingLeft();
});

test('codex and claude side by side overrun the budget of their run by one call each, at most', async () => {
  await using model = await startFakeModel(ENDLESS);
  await using rig = new Rig(KEYS);
  const told = await toldBy(
    rig,
    'together',
    `api_version: v1
kind: pipeline
name: together
budget: { max_turns: 6 }
pipeline:
  boxes:
    - { name: codex, continue_on_error: true, prompt: Never end., ${codexOf(model.port)} }
    - { name: claude, continue_on_error: true, prompt: Never end., ${claudeOf(model.port)} }
    - { name: late, prompt: Never end., ${codexOf(model.port)} }
  stages:
    - { type: fan_out, boxes: [codex, claude] }
    - { type: box, name: late }
`,
  );
  const over = { state: 'failed', failure: { code: 'run/budget-turns' } };
  expect(told).toMatchObject({ codex: over, claude: over, late: over });
  const used = (told['codex']!.usage['turns'] ?? 0) + (told['claude']!.usage['turns'] ?? 0);
  expect(used).toBeGreaterThan(6);
  expect(used).toBeLessThanOrEqual(8);
  expect(told['late']!.failure!.message).toContain(
    `did not start: agents of the run have made ${used} calls of the model, of 6 in its budget`,
  );
  await rig.assertNothingLeft();
});
