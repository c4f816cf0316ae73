/** `inspect`, `explain` and `schema` print what needs no server. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { toWire } from '../../domain/plan/wire.ts';
import { compileText } from '../../domain/language/load.ts';
import { openStores } from '../../store/open-stores.ts';
import { typeCommand } from '../rig/runs/typed-command.ts';

const SPEC = `kind: workflow
name: sales
workflow:
  output_step: report
  steps:
    - { name: fetch, run: { program: sh, args: [-c, 'echo "a]b" | cat'] }, outputs: [{ name: rows }], retry: { max_attempts: 3 } }
    - { name: ok, depends_on: [fetch], approval: { message: "Go on?" } }
    - { name: report, depends_on: [ok], run: { program: cat }, inputs: [{ from: rows }] }
    - { name: clean, on_failure: [report], when: "stages.fetch.output != ''", run: { program: "true" }, sandbox: { memory_mb: 256 } }
`;

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-inspect-'));
  writeFileSync(join(dir, 'sales.yaml'), SPEC);
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const type = (...args: readonly string[]) => typeCommand(args, dir, { VOIDBOX_STATE_DIR: join(dir, 'state') });

test('`inspect` draws the stages by VM, with what they wait for and take', async () => {
  const { code, stdout } = await type('inspect', 'sales.yaml');
  expect({ code, stdout }).toEqual({
    code: 0,
    stdout: `workflow sales

VM (microvm), 512 MiB, 1 vCPU, no network
  fetch   sh -c echo "a]b" | cat · leaves rows · 3 attempts
  report  cat · after fetch, ok · takes fetch.rows

VM (microvm), 256 MiB, 1 vCPU, no network
  clean   true · after fetch, a failure of report · when stages.fetch.output != ''

without a VM
  ok      asks: Go on? · after fetch

result: the output of report
`,
  });
});

test('`inspect --format mermaid` is a flowchart in which no text is markup', async () => {
  const { stdout } = await type('inspect', 'sales.yaml', '--format', 'mermaid');
  expect(stdout).toBe(`flowchart TD
  subgraph v0["VM (microvm), 512 MiB, 1 vCPU, no network"]
    s0["fetch<br/>sh -c echo #34;a#93;b#34; #124; cat"]
    s2["report<br/>cat"]
  end
  subgraph v1["VM (microvm), 256 MiB, 1 vCPU, no network"]
    s3["clean<br/>true<br/>when stages.fetch.output #33;= #39;#39;"]
  end
  s1{{"ok<br/>asks: Go on#63;"}}
  s0 --> s1
  s0 --> s2
  s1 --> s2
  s0 --> s3
  s2 -. failure .-> s3
  result(["result"])
  s2 --> result
`);
});

test('`inspect RUN` reads the plan that the run was admitted with', async () => {
  const stores = await openStores({ stateDir: join(dir, 'state') });
  const { plan } = compileText(SPEC.replace(/ when: "[^"]*",/, ''), 'sales.yaml', { baseDir: dir });
  const admitted = {
    type: 'run-admitted',
    name: 'sales',
    kind: 'workflow',
    hostId: 'h',
    stages: [],
    outputStage: null,
  };
  await stores.events.append('sales-1', [{ id: 'run/admitted', atMs: 1, body: admitted as never }]);
  await stores.records.put('sales-1', 'plan', toWire(plan!));
  const { stdout } = await type('inspect', 'sales-1', '--json');
  expect(JSON.parse(stdout)).toEqual({
    name: 'sales',
    kind: 'workflow',
    plan: JSON.parse(JSON.stringify(toWire(plan!))) as unknown,
    missingParams: [],
    unsupported: [],
  });
});

test.each([
  ['inspect gone.yaml', 'the file `gone.yaml` does not exist'],
  ['inspect gone', 'there is no run `gone`, and no such file'],
  ['inspect sales-1 --param a=1', '--param is for a spec, and `sales-1` is a run'],
  ['inspect sales.yaml --format svg', '--format is `svg`'],
  ['explain stage/timout', 'there is no error code `stage/timout`; did you mean "stage/timeout"?'],
  ['explain __proto__', 'there is no error code'],
  ['explain loop', 'Codes with `loop` in them: loop/limit'],
  ['explain STAGE/', 'Codes with `stage` in them: stage/'],
  ['explain s', ' more. docs/reference/errors.md lists all codes.'],
  ['explain nothing-like-it', 'docs/reference/errors.md lists all codes.'],
  ['explain nothing-like-it', 'Guides: first-agent, first-approval, first-run, '],
  ['explain secret', 'did you mean "secrets"?'],
])('`%s` is a mistake of usage', async (typed, message) => {
  const { code, stderr } = await type(...typed.split(' '));
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(message) as string });
});

test('`explain` prints a code with its remedy', async () => {
  const { code, stdout } = await type('explain', 'stage/timeout');
  expect({ code, stdout }).toEqual({
    code: 0,
    stdout: expect.stringMatching(
      /^stage\/timeout\nThe command of a stage ran past .*\n\nhelp: Raise `timeout_secs`/,
    ) as string,
  });
  const { stdout: json } = await type('explain', 'admit/unsupported-work', '--json');
  expect(JSON.parse(json)).toMatchObject({ code: 'admit/unsupported-work', kind: 'world', retry: 'never' });
});

test('`explain` prints a guide, and with `--json` its text', async () => {
  const { code, stdout } = await type('explain', 'secrets');
  expect({ code, stdout }).toEqual({
    code: 0,
    stdout: expect.stringMatching(
      /^Secrets\n[^]*\n {4}\$ SIGNING_KEY=not-a-real-key voidbox run sign\.yaml\n/,
    ) as string,
  });
  expect(stdout).not.toContain('<!--');
  const { stdout: json } = await type('explain', 'costs', '--json');
  expect(JSON.parse(json)).toMatchObject({ topic: 'costs', path: 'docs/guides/costs.md' });
});

test('`schema` prints what docs/spec.schema.json is', async () => {
  const { stdout } = await type('schema');
  expect(stdout).toBe(readFileSync(new URL('../../docs/spec.schema.json', import.meta.url), 'utf8'));
});
