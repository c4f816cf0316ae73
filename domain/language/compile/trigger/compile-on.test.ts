import { expect, test } from 'vitest';
import { TRIGGER_LIMITS } from '../../../delivery/trigger-defaults.ts';
import { checkExpressions } from '../../expression/check.ts';
import { type CompiledText, compileText, loadText } from '../../load.ts';

interface Parts {
  readonly on: unknown;
  readonly params?: unknown;
  readonly given?: Readonly<Record<string, string>>;
}

const HOOK = { verify: 'github', secret: 'TOKEN' };

function write({ on, params }: Parts): string {
  const steps = [
    { name: 'report', run: { program: 'echo' } },
    { name: 'pause', wait: { for: '1s' } },
  ];
  return JSON.stringify({ kind: 'workflow', name: 'x', params, on, workflow: { steps, output_step: 'report' } });
}

function compile(parts: Parts): CompiledText {
  const { given = {} } = parts;
  return compileText(write(parts), 'x.json', { baseDir: '/', params: given, checkExpression: checkExpressions });
}

const messagesOf = ({ diagnostics }: Pick<CompiledText, 'diagnostics'>): readonly string[] =>
  diagnostics.map(({ severity, message }) => `${severity}: ${message}`);

test('a spec without `on` has no triggers', () => {
  const { triggers, deployProblems, plan } = compile({ on: undefined });
  expect([triggers, deployProblems]).toEqual([[], []]);
  expect(plan).not.toBeNull();
});

test('a spec is loaded with its triggers, and without them if it has a mistake', async () => {
  const load = async (on: unknown): Promise<CompiledText> => await loadText(write({ on }), 'x.json', { baseDir: '/' });
  expect((await load([{ name: 'a', webhook: HOOK }])).triggers).toMatchObject([{ name: 'a' }]);
  const { triggers, plan } = await load([
    { name: 'a', webhook: HOOK },
    { name: 'b', webhook: HOOK, when: 'stages.report.output == ""' },
  ]);
  expect([triggers, plan]).toEqual([[], null]);
});

test.each([
  [
    'reprot',
    'error: `respond.output` of trigger "a" names the stage "reprot", which does not exist; did you mean "report"?',
  ],
  ['pause', 'error: `respond.output` of trigger "a" names "pause", which is a wait and has no output'],
])('the output of an answer names a stage with an output: %s', (output, message) => {
  expect(messagesOf(compile({ on: [{ name: 'a', webhook: { ...HOOK, respond: { output } } }] }))).toEqual([message]);
});

test('a required parameter needs a value of the trigger or of the deployer', () => {
  const on = [
    { name: 'a', webhook: HOOK, params: { region: '${{ input.region }}' } },
    { name: 'b', schedule: { every: '1h' } },
  ];
  const params = { region: {}, rows: 1 };
  const lacking = compileText(write({ on, params }), 'x.json', {
    baseDir: '/',
    missingParams: [],
    checkExpression: checkExpressions,
  });
  const message = 'trigger "b" gives no value to the parameter "region", which has no default';
  expect(messagesOf(lacking)).toEqual([`warning: ${message}`]);
  expect(lacking.triggers).toHaveLength(2);
  expect(lacking.deployProblems).toMatchObject([{ severity: 'error', code: 'spec/missing-param', message }]);
  const given = compile({ on, params, given: { region: 'north' } });
  expect([given.diagnostics, given.deployProblems]).toEqual([[], []]);
});

test('a spec has a limit of triggers', () => {
  const listOf = (count: number): unknown =>
    Array.from({ length: count }, (_, index) => ({ name: `t${index}`, webhook: HOOK }));
  expect(compile({ on: listOf(TRIGGER_LIMITS.triggers) }).triggers).toHaveLength(64);
  expect(messagesOf(compile({ on: listOf(TRIGGER_LIMITS.triggers + 1) }))).toEqual([
    'error: the spec has 65 triggers; at most 64 are allowed',
  ]);
});

test.each([
  [
    'text',
    { input: 'x'.repeat(TRIGGER_LIMITS.textCharacters) },
    { input: 'x'.repeat(TRIGGER_LIMITS.textCharacters + 1) },
  ],
  [
    'number of expressions',
    { input: '${{ input.a }}'.repeat(TRIGGER_LIMITS.expressions) },
    { input: '${{ input.a }}'.repeat(TRIGGER_LIMITS.expressions), order: { key: '${{ input.a }}' } },
  ],
  [
    'number of lines of cron',
    { webhook: undefined, schedule: { cron: Array(TRIGGER_LIMITS.cronLines).fill('0 0 * * *') } },
    { webhook: undefined, schedule: { cron: Array(TRIGGER_LIMITS.cronLines + 1).fill('0 0 * * *') } },
  ],
])('a trigger has a limit: %s', (_what, allowed, refused) => {
  const codesOf = (trigger: object): readonly string[] =>
    compile({ on: [{ name: 'a', webhook: HOOK, ...trigger }] }).diagnostics.map(({ code }) => code);
  expect(codesOf(allowed)).toEqual([]);
  expect(codesOf(refused)).toEqual(['spec/too-large']);
});

test('a trigger has a limit of parameters', () => {
  const names = Array.from({ length: TRIGGER_LIMITS.params + 1 }, (_, index) => `p${index}`);
  const params = Object.fromEntries(names.map((name) => [name, 'x']));
  expect(messagesOf(compile({ on: [{ name: 'a', webhook: HOOK, params }], params }))).toEqual([
    'error: `params` of trigger 1 of the spec has 257 entries; it can have at most 256',
  ]);
});

test('a hostile name of a parameter changes no object', () => {
  const on = '[{"name":"a","webhook":{"verify":"none"},"params":{"__proto__":"x","constructor":"y"}}]';
  const text = write({ on: 'ON', params: { constructor: 'z' } }).replace('"ON"', on);
  const compiled = compileText(text, 'x.json', { baseDir: '/', checkExpression: checkExpressions });
  expect(messagesOf(compiled)).toEqual(['error: the name of a parameter is "__proto__"']);
  const { triggers } = compile({
    on: [{ name: 'a', webhook: { verify: 'none' }, params: { constructor: 'y' } }],
    params: { constructor: 'z' },
  });
  expect(Object.entries(triggers[0]!.params)).toEqual([['constructor', 'y']]);
});

test('a hostile spec is compiled in time', () => {
  const params = Object.fromEntries(Array.from({ length: 2_000 }, (_, index) => [`p${index}`, {}]));
  const on = Array.from({ length: 5_000 }, (_, index) => ({
    name: `t${index}`,
    webhook: HOOK,
    input: '${{'.repeat(5_000),
    when: '('.repeat(4_000),
  }));
  const startedAt = performance.now();
  const { plan, triggers, diagnostics } = compileText(write({ on, params }), 'x.json', {
    baseDir: '/',
    missingParams: [],
    checkExpression: checkExpressions,
  });
  expect(performance.now() - startedAt).toBeLessThan(10_000);
  expect([plan, triggers]).toEqual([null, []]);
  expect(diagnostics.length).toBeLessThanOrEqual(200);
});
