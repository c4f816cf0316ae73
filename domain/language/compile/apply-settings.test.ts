import { expect, test } from 'vitest';
import { answeringOf } from '../../plan/work.ts';
import { environmentOf } from '../../plan-rules/variables.ts';
import type { AppliedSettings } from './apply-settings.ts';
import type { HostSettings } from './stage/host-settings.ts';
import { type CompiledText, compileText } from '../load.ts';

const NONE: HostSettings = { provider: null, model: null, baseUrl: null, apiKeyEnv: null, ollamaBaseUrl: null };
const NOTHING: Omit<AppliedSettings, 'leftOut'> = { llm: false, hasOwnLlm: false, ollama: false };
const PRICE = 'price: { input: 1, output: 2 }';

function compiled(text: string, settings?: Partial<HostSettings>): CompiledText {
  return compileText(text, 's.yaml', {
    baseDir: '/spec',
    ...(settings === undefined ? {} : { settings: { ...NONE, ...settings } }),
  });
}

/** Returns a spec with one step that has a prompt. @param llm  of the spec; empty: the spec has no `llm` */
const asking = (llm: string, step = ''): string =>
  `kind: workflow\nname: w\n${llm === '' ? '' : `llm: { ${llm} }\n`}workflow:\n  steps:\n    - { name: a, prompt: hi${step} }\n`;

test.each<[string, Partial<HostSettings>, object, readonly string[]]>([
  ['', { provider: 'ollama' }, { provider: 'ollama', model: null, baseUrl: null, apiKeyEnv: null }, []],
  ['', { model: 'opus' }, { provider: 'claude', model: 'opus' }, []],
  ['provider: ollama, model: m', { model: 'n' }, { provider: 'ollama', model: 'n' }, []],
  ['provider: claude', { baseUrl: 'http://a' }, { provider: 'claude', baseUrl: 'http://a' }, []],
  ['provider: claude, api_key_env: A', { apiKeyEnv: 'B' }, { provider: 'claude', apiKeyEnv: 'B' }, []],
  // The other keys stay if the provider stays the same.
  [
    `provider: codex, model: m, base_url: "http://a", api_key_env: A, ${PRICE}`,
    { provider: 'codex', baseUrl: 'http://b' },
    { model: 'm', baseUrl: 'http://b', apiKeyEnv: 'A', price: { inputUsd: 1, outputUsd: 2 } },
    [],
  ],
  // Another provider gets neither the key nor the model.
  [
    `provider: codex, model: m, base_url: "http://a", api_key_env: A, ${PRICE}`,
    { provider: 'custom', baseUrl: 'http://b' },
    { provider: 'custom', model: null, baseUrl: 'http://b', apiKeyEnv: null },
    ['model', 'api_key_env', 'price'],
  ],
  // A price belongs to a model.
  [`provider: codex, model: m, ${PRICE}`, { model: 'n' }, { provider: 'codex', model: 'n' }, ['price']],
  [`provider: codex, model: m, ${PRICE}`, { model: 'm' }, { model: 'm', price: { inputUsd: 1, outputUsd: 2 } }, []],
])('{ %s } with %j', (llm, settings, expected, leftOut) => {
  const { plan, diagnostics, appliedSettings } = compiled(asking(llm), settings);
  expect(diagnostics).toEqual([]);
  const found = answeringOf(plan!.stages[0]!.work)!.llm!;
  expect(found).toMatchObject(expected);
  expect('price' in found).toBe('price' in expected);
  expect(appliedSettings).toEqual({ ...NOTHING, llm: true, leftOut: new Set(leftOut) });
});

test("a stage's own `llm` stays, and so does a spec without agents", () => {
  for (const text of [
    asking('', ', llm: { provider: claude }'),
    'kind: workflow\nname: w\nworkflow:\n  steps:\n    - { name: a, skill: { use: ./s.ts, agent: codex } }\n',
  ]) {
    const with_ = compiled(text, { provider: 'ollama' });
    expect(with_.plan).toEqual(compiled(text).plan);
    expect(with_.appliedSettings).toEqual({ ...NOTHING, hasOwnLlm: true, leftOut: new Set() });
  }
  const command = 'kind: workflow\nname: w\nworkflow:\n  steps:\n    - { name: a, run: { program: ls } }\n';
  expect(compiled(command, { provider: 'ollama' })).toEqual(compiled(command));
});

test('the `llm` of a part is replaced like the `llm` of a spec', () => {
  const { plan, appliedSettings } = compiled(
    `kind: workflow
name: w
parts:
  ask: { llm: { provider: claude, model: opus }, workflow: { steps: [{ name: a, prompt: hi }] } }
workflow:
  output_step: one
  steps:
    - { name: one, uses: ask }
    - { name: two, uses: ask }
    - { name: own, prompt: hi, llm: { provider: claude } }
`,
    { provider: 'codex' },
  );
  const providers = plan!.stages.flatMap(({ id, work }) => {
    const agent = answeringOf(work);
    return agent === null ? [] : [`${id} ${agent.llm?.provider} ${agent.llm?.model}`];
  });
  expect(providers).toEqual(['one.a codex null', 'two.a codex null', 'own claude null']);
  expect(appliedSettings).toEqual({ ...NOTHING, llm: true, hasOwnLlm: true, leftOut: new Set(['model']) });
});

test('the VM, its network and the key follow from the provider that the settings name', () => {
  const { plan } = compiled(asking('provider: claude'), { provider: 'codex', baseUrl: 'http://127.0.0.1:4000/v1' });
  const { sandbox } = plan!.scopes[0]!;
  expect(sandbox.memoryMib).toBe(512);
  expect(sandbox.egress).toMatchObject({ services: [{ name: 'llm', host: '127.0.0.1', port: 4000 }] });
  expect(plan!.hostVariables).toEqual(['OPENAI_API_KEY']);
});

test('a mistake that the settings make is reported at the `llm` or at the stage', () => {
  const text = asking(`provider: codex, model: m, ${PRICE}`, ', budget: { max_cost_usd: 1 }');
  expect(compiled(text).diagnostics).toEqual([]);
  expect(compiled(text, { model: 'n' }).diagnostics).toMatchObject([
    { severity: 'error', line: 6, message: expect.stringContaining('needs a price') },
  ]);
});

const WITH_OLLAMA = `kind: workflow
name: w
sandbox: { env: { OLLAMA_BASE_URL: "http://10.0.2.2:11434", OTHER: x } }
workflow:
  steps:
    - { name: a, run: { program: env } }
    - { name: b, run: { program: env }, env: { OLLAMA_BASE_URL: "http://b" } }
    - { name: c, run: { program: env }, env: { OLLAMA_BASE_URL: "" } }
  output_step: c
`;

test("the host's OLLAMA_BASE_URL overrides the spec's", () => {
  const { plan, diagnostics, appliedSettings } = compiled(WITH_OLLAMA, { ollamaBaseUrl: 'http://mine:1' });
  expect(diagnostics).toEqual([]);
  const values = plan!.stages.map(({ work }) => environmentOf(work).find(({ name }) => name === 'OLLAMA_BASE_URL'));
  expect(values).toEqual([
    { name: 'OLLAMA_BASE_URL', value: { kind: 'literal', text: 'http://mine:1' } },
    { name: 'OLLAMA_BASE_URL', value: { kind: 'literal', text: 'http://mine:1' } },
    { name: 'OLLAMA_BASE_URL', value: { kind: 'from-host', fromHost: 'OLLAMA_BASE_URL', ifUnset: 'empty' } },
  ]);
  expect(appliedSettings).toEqual({ ...NOTHING, ollama: true, leftOut: new Set() });
});

test.each(['localhost:11434', 'http://ada:secret@mine', 'http://a/${{ params.x }}'])(
  'OLLAMA_BASE_URL=%s is a mistake only if a spec has the variable',
  (ollamaBaseUrl) => {
    const { plan, diagnostics } = compiled(WITH_OLLAMA, { ollamaBaseUrl });
    expect(plan).toBeNull();
    expect(diagnostics.map(({ code, line }) => [code, line])).toEqual([
      ['spec/bad-value', 3],
      ['spec/bad-value', 7],
    ]);
    expect(JSON.stringify(diagnostics)).not.toContain('secret');
    expect(compiled(asking(''), { ollamaBaseUrl })).toEqual(compiled(asking('')));
  },
);
