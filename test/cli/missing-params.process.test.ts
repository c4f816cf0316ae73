/** Commands that read a spec whose parameters have no values yet, and `run` with a flag that has no effect. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { typeCommand } from '../rig/runs/typed-command.ts';

const SPEC = `kind: workflow
name: needs
params:
  who:
  count: { type: number, min: 2 }
  isDry: { type: boolean }
  place: { choices: [Ulm, Bonn] }
  rows: { type: list }
  at:
  known: here
workflow:
  output_step: last
  steps:
    - { name: start, run: { program: "\${{ params.who }}" } }
    - { name: settle, depends_on: [start], wait: { until: "\${{ params.at }}" } }
    - { name: each, depends_on: [settle], for_each: "params.rows", run: "echo \${{ item }}" }
    - { name: part, depends_on: [each], uses: p, with: { n: "\${{ params.who }}", m: "\${{ params.count }}" } }
    - { name: last, depends_on: [part], when: "params.count > 1 && !params.isDry", run: "echo \${{ params.place }}" }
parts:
  p:
    params: { n: { type: number }, m: { type: number } }
    workflow: { steps: [{ name: s, run: "seq \${{ params.n }} \${{ params.m }}" }] }
`;
const MISSING = ['who', 'count', 'isDry', 'place', 'rows', 'at'];
const LINE = `parameters that a run must give: ${MISSING.map((name) => `--param ${name}=…`).join(' ')}\n`;

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-missing-params-'));
  writeFileSync(join(dir, 'needs.yaml'), SPEC);
  writeFileSync(
    join(dir, 'needs.ts'),
    `import { defineWorkflow, param, step } from 'voidbox';
export default defineWorkflow({ name: 'n', params: { who: {} }, steps: [step('a', ['echo', param('who')])] });`,
  );
  writeFileSync(
    join(dir, 'plain.yaml'),
    'kind: workflow\nname: x\nworkflow: { steps: [{ name: a, run: "true", secrets: [NOT_SET_HERE] }] }\n',
  );
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const type = (...args: readonly string[]) => typeCommand(args, dir, { VOIDBOX_STATE_DIR: join(dir, 'state') });

test('`validate` lists parameters that a run must give, and succeeds', async () => {
  const { code, stdout, stderr } = await type('validate', 'needs.yaml');
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toContain(LINE);
  const json = await type('validate', 'needs.yaml', '--json');
  expect(JSON.parse(json.stdout)).toMatchObject({ valid: true, missingParams: MISSING, diagnostics: [] });
});

test('`inspect` draws the plan with the places of these parameters', async () => {
  const { code, stdout, stderr } = await type('inspect', 'needs.yaml');
  expect({ code, stderr }).toEqual({ code: 0, stderr: LINE });
  expect(stdout).toContain('${{ params.who }}');
});

test('a given value counts, and is checked', async () => {
  const some = await type('validate', 'needs.yaml', '--param', 'who=ls', '--param', 'rows=[1]', '--json');
  expect(JSON.parse(some.stdout)).toMatchObject({ valid: false });
  const given = await type('validate', 'needs.yaml', '--param', 'count=1', '--json');
  expect(given.code).toBe(2);
  expect((JSON.parse(given.stdout) as { diagnostics: readonly unknown[] }).diagnostics[0]).toMatchObject({
    code: 'spec/bad-value',
    line: 5,
  });
});

test.each(['validate', 'inspect'])('`%s --require-params` refuses parameters without a value', async (command) => {
  const { code, stderr } = await type(command, 'needs.yaml', '--require-params');
  expect(code).toBe(2);
  expect(stderr.match(/has no default and no value/g)).toHaveLength(MISSING.length);
});

test('a definition in TypeScript has the same list', async () => {
  const { code, stdout } = await type('validate', 'needs.ts');
  expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.stringContaining('give: --param who=…\n') });
  expect((await type('validate', 'needs.ts', '--require-params')).code).toBe(2);
});

test('`run` refuses them', async () => {
  const { code, stderr } = await type('run', 'needs.yaml');
  expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringContaining('spec/missing-param') });
});

test('`run --mock-agents` without an agent is a notice', async () => {
  const { code, stderr } = await type('run', 'plain.yaml', '--mock-agents');
  expect(stderr).toContain('notice: --mock-agents has no effect: no stage has an agent\n');
  // The run itself is refused for another reason, before it starts anything.
  expect({ code, stderr }).toMatchObject({ code: 3, stderr: expect.stringContaining('NOT_SET_HERE') });
});
