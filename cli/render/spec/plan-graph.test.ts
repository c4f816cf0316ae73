import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Plan } from '../../../domain/plan/plan.ts';
import { checkExpressions } from '../../../domain/language/expression/check.ts';
import { compileText } from '../../../domain/language/load.ts';
import { planToMermaid, renderPlanGraph } from './plan-graph.ts';
import { renderPlanSummary } from './plan.ts';
import { findPackageRoot } from '../../../setup/package-root.ts';
import { PLAIN } from '../text/style.ts';

function planOf(text: string): Plan {
  const { plan, diagnostics } = compileText(text, 'x.yaml', { baseDir: null });
  expect(diagnostics.filter(({ severity }) => severity === 'error')).toEqual([]);
  return plan!;
}

const NESTED = `kind: workflow
name: main
parts:
  outer: { workflow: { steps: [{ name: a, run: { program: a } }, { name: in, uses: inner, depends_on: [a] }] } }
  inner: { pipeline: { boxes: [{ name: b, run: { program: b } }] } }
workflow:
  steps:
    - { name: x, uses: outer }
    - { name: y, run: { program: y }, depends_on: [x] }
`;

test('the graph shows the stages of a part in a group of their own, also for parts within parts', () => {
  expect(renderPlanGraph(planOf(NESTED), PLAIN)).toBe(`workflow main

VM (microvm), 512 MiB, 1 vCPU, no network
  y       y · after x

part x: outer

  VM (microvm), 512 MiB, 1 vCPU, no network
    x.a     a

  without a VM
    x       ends the part outer · after x.in

  part x.in: inner

    VM (microvm), 512 MiB, 1 vCPU, no network
      x.in.b  b · after x.a

    without a VM
      x.in    ends the part inner · after x.in.b

result: the output of y
`);
  expect(planToMermaid(planOf(NESTED)).split('\n').slice(0, 19).join('\n')).toBe(`flowchart TD
  subgraph v0["VM (microvm), 512 MiB, 1 vCPU, no network"]
    s4["y<br/>y"]
  end
  subgraph p0["part x: outer"]
    subgraph v1["VM (microvm), 512 MiB, 1 vCPU, no network"]
      s0["x.a<br/>a"]
    end
    s3{{"x<br/>ends the part outer"}}
    subgraph p1["part x.in: inner"]
      subgraph v2["VM (microvm), 512 MiB, 1 vCPU, no network"]
        s1["x.in.b<br/>b"]
      end
      s2{{"x.in<br/>ends the part inner"}}
    end
  end
  s0 --> s1
  s1 --> s2
  s2 --> s3`);
});

test('each stage is drawn once, also of parts that say to be within each other', () => {
  const plan = planOf(NESTED);
  const stages = plan.stages.map((stage) =>
    stage.work.kind === 'part' ? { ...stage, work: { ...stage.work, stages: ['x', 'x.in', 'x.a'] } } : stage,
  );
  const drawn = planToMermaid({ ...plan, stages });
  for (const index of plan.stages.keys()) expect(drawn.match(new RegExp(`^ *s${index}[[{]`, 'gm'))).toHaveLength(1);
});

test('the graph shows a loop in a group of its own, with what ends it', () => {
  const { plan } = compileText(
    `kind: pipeline
name: main
pipeline:
  boxes: [{ name: a, run: { program: a } }, { name: b, run: { program: b } }]
  stages: [{ type: loop, name: refine, boxes: [a, b], until: stages.b.json.ok, max_visits: 5 }]
`,
    'x.yaml',
    { baseDir: null, checkExpression: checkExpressions },
  );
  expect(renderPlanGraph(plan!, PLAIN)).toBe(`pipeline main

loop refine: at most 5 visits

  VM (microvm), 512 MiB, 1 vCPU, no network
    a       a

  VM (microvm), 512 MiB, 1 vCPU, no network
    b       b · after a

  without a VM
    refine  ends the loop once stages.b.json.ok · after b, the end of a

result: the output of refine
`);
  expect(planToMermaid(plan!)).toContain('"loop refine: at most 5 visits"');
});

test('a stage says the list that it is done for, its secrets, its schema and its mock', () => {
  const { plan, diagnostics } = compileText(
    `kind: workflow
name: main
workflow:
  output_step: many
  steps:
    - { name: list-all, run: { program: list } }
    - { name: two, run: { program: b }, for_each: [x, y], depends_on: [list-all] }
    - name: many
      run: { program: c }
      for_each: stages["list-all"].json.files
      depends_on: [two]
      max_parallel: 8
      fail_fast: true
      allow_failures: 2
      secrets: [TOKEN]
      output_schema: { type: object }
      mock: { output: [] }
`,
    'x.yaml',
    { baseDir: null, checkExpression: checkExpressions },
  );
  expect(diagnostics).toEqual([]);
  const lines = renderPlanGraph(plan!, PLAIN).split('\n');
  expect(lines.find((line) => line.startsWith('  two'))).toBe(
    '  two       b · for each of 2 items · 4 at a time · after list-all',
  );
  expect(lines.find((line) => line.startsWith('  many'))).toBe(
    '  many      c · for each of stages["list-all"].json.files · 8 at a time · 2 may fail · stops at a failure too many · after list-all, two · secret TOKEN · its output has a schema · has a mock',
  );
  expect(planToMermaid(plan!)).toContain('two<br/>b<br/>for each of 2 items');
  expect(renderPlanSummary('x.yaml', plan!, { style: PLAIN })).toContain(
    '  two       b, for each of 2 items, after list-all, each in a VM of its own\n',
  );
});

test('the group of a part with `for_each` names its items', () => {
  const { plan } = compileText(
    `kind: pipeline
name: main
parts:
  p: { pipeline: { boxes: [{ name: a, run: { program: a } }] } }
pipeline:
  boxes: [{ name: list, run: { program: l } }, { name: each, uses: p, for_each: stages.list.json.files }, { name: two, for_each: [1, 2], run: { program: t } }]
`,
    'x.yaml',
    { baseDir: null, checkExpression: checkExpressions },
  );
  expect(renderPlanGraph(plan!, PLAIN)).toBe(`pipeline main

VM (microvm), 512 MiB, 1 vCPU, no network
  list    l

VM (microvm), 512 MiB, 1 vCPU, no network
  two     t · for each of 2 items · 4 at a time · after each

part each: p, for each of stages.list.json.files

  VM (microvm), 512 MiB, 1 vCPU, no network
    each.a  a

  without a VM
    each    ends the part p · for each of stages.list.json.files · 4 at a time · after list, each.a

result: the output of two
`);
});

test('the graph names a VM that is kept after a failure', () => {
  const spec = `kind: workflow\nname: main\nsandbox: { keep: on-failure, keep_secs: 90 }\nworkflow: { steps: [{ name: y, run: { program: y } }] }`;
  expect(renderPlanGraph(planOf(spec), PLAIN)).toContain(
    'VM (microvm), 512 MiB, 1 vCPU, no network, left for 90s if a stage fails\n',
  );
});

test('the graph names a VM that boots without a snapshot', () => {
  const spec = `kind: workflow\nname: main\nsandbox: { snapshot: none }\nworkflow: { steps: [{ name: y, run: { program: y } }] }`;
  expect(renderPlanGraph(planOf(spec), PLAIN)).toContain(
    'VM (microvm), 512 MiB, 1 vCPU, no network, boots without a snapshot\n',
  );
});

const vmsIn = (text: string): readonly string[] => text.match(/VM \(microvm\).*/g) ?? [];

test('a VM says what it reaches: rules and what they deny, the internet, services', () => {
  const plan = planOf(readFileSync(join(findPackageRoot(), 'test', 'spec', 'egress', 'spec.yaml'), 'utf8'));
  const github = ['github.com', 'api.github.com', 'codeload.github.com', 'raw.githubusercontent.com'];
  const objects = ['objects.githubusercontent.com', 'release-assets.githubusercontent.com'];
  const denied = ['ads.example.com', ...github, ...objects].map((name) => `${name} at any port`);
  expect(vmsIn(renderPlanGraph(plan, PLAIN))).toEqual([
    `VM (microvm), 512 MiB, 1 vCPU, reaches registry.npmjs.org, example.com, *.example.org at port 8443, 198.41.0.0/16, 2606:4700::/32 at port 443, 1.1.1.1/32, service db (127.0.0.1:5432) except ${denied.join(', ')}, *.evil.example at port 25`,
    'VM (microvm), 512 MiB, 1 vCPU, reaches the internet, service db ([::1]:5432), service cache (cache.internal:6379)',
    'VM (microvm), 512 MiB, 1 vCPU, reaches service db (127.0.0.1:5432)',
    'VM (microvm), 1024 MiB, 1 vCPU, reaches service db (127.0.0.1:5432), service llm (127.0.0.1:11434)',
    'VM (microvm), 1024 MiB, 1 vCPU, reaches api.anthropic.com, pypi.org, files.pythonhosted.org, service db (127.0.0.1:5432)',
  ]);
  expect(planToMermaid(plan)).toContain('1 vCPU, reaches the internet, service db (#91;::1#93;:5432), service cache');
});

test('a VM that stages share reaches what each of them needs, and one without egress nothing', () => {
  const plan = planOf(`kind: workflow
name: main
workflow:
  output_step: a
  steps:
    - { name: a, prompt: write, llm: { provider: claude } }
    - { name: b, prompt: write, llm: { provider: codex } }
    - { name: c, prompt: write, llm: { provider: ollama } }
    - { name: d, run: { program: d }, sandbox: { egress: none } }
    - { name: e, run: { program: e }, sandbox: { egress: { allow: [npm, a.example, b.example, c.example, d.example, e.example, f.example, g.example, h.example] } } }
`);
  expect(vmsIn(renderPlanGraph(plan, PLAIN))).toEqual([
    'VM (microvm), 1024 MiB, 1 vCPU, reaches api.anthropic.com, api.openai.com, chatgpt.com, auth.openai.com, service llm (127.0.0.1:11434)',
    'VM (microvm), 512 MiB, 1 vCPU, no network',
    'VM (microvm), 512 MiB, 1 vCPU, reaches registry.npmjs.org, a.example, b.example, c.example, d.example, e.example, f.example, g.example and 1 more',
  ]);
});
