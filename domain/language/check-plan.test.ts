// oxlint-disable typescript/no-explicit-any -- plans that break their type are the subject
import { describe, expect, test } from 'vitest';
import type { Plan } from '../plan/plan.ts';
import { toWire } from '../plan/wire.ts';
import { compiled, opened, problemsAfter, TWO_STEPS } from '../../test/rig/runs/plan-with-every-link.ts';
import { checkPlan } from './check-plan.ts';

/** A plan whose type allows any change. */
function fresh(): any {
  return opened(compiled(TWO_STEPS));
}

function problemsOf(change: (plan: any) => unknown): readonly string[] {
  return problemsAfter(compiled(TWO_STEPS), change);
}

test('the check admits a plan of the compiler', () => {
  expect(checkPlan(fresh())).toEqual({ plan: fresh() as Plan });
});

test('a key of an item stays, whatever its name', () => {
  const list = '[{"__proto__":{"a":1},"constructor":2,"b":[1.5,null]}]';
  const spec = `kind: workflow\nname: x\nworkflow: { steps: [{ name: a, for_each: ${list}, run: { program: x } }] }\n`;
  const checked = checkPlan(opened(compiled(spec)));
  expect(JSON.stringify('plan' in checked && checked.plan.stages[0]!.each!.list)).toBe(
    `{"kind":"inline","items":${list}}`,
  );
});

test.each([[{ a: Number.NaN }], [[() => 1]], [new Date(0)], [JSON.parse(`${'['.repeat(201)}${']'.repeat(201)}`)]])(
  'an item that is not JSON is refused: %#',
  (item) => {
    const list = { kind: 'inline', items: [item] };
    const each = { list, maxParallel: 1, failFast: false, allowFailures: 0 };
    expect(problemsOf((plan) => (plan.stages[0].each = each))).toEqual([expect.stringContaining('JSON that is not')]);
  },
);

test('a plan without its defaults is filled', () => {
  const sent = {
    version: 1,
    kind: 'workflow',
    name: 'least',
    stages: [{ id: 'a', work: { kind: 'command', program: 'true' } }],
    scopes: [{ id: 'a' }],
    output: { kind: 'stage', stage: 'a' },
    maxParallel: 1,
    hostVariables: [],
  };
  const checked = checkPlan(sent);
  expect('plan' in checked && checked.plan).toMatchObject({
    stages: [
      {
        id: 'a',
        scope: 'a',
        after: [],
        work: { kind: 'command', args: [], cwd: '/workspace', env: [] },
        input: { kind: 'none' },
        timeoutMs: 3_600_000,
      },
    ],
    scopes: [{ id: 'a', stages: ['a'], sandbox: { mode: 'auto', isolation: 'microvm', memoryMib: 512, mounts: [] } }],
  });
  expect(checkPlan({ ...sent, scopes: [{ id: 'b' }] })).toHaveProperty(
    'problems',
    expect.arrayContaining(['stage a is listed in 0 scopes; it must be listed in one']),
  );
});

test('the wire form keeps edges on the end and on a failure, and a folder next to the spec', () => {
  const plan = fresh();
  plan.stages.push({
    ...plan.stages[0],
    id: 'c',
    outputs: [],
    after: [
      { stage: 'a', on: 'end' },
      { stage: 'b', on: 'failure' },
    ],
  });
  plan.scopes[0].stages.push('c');
  plan.scopes[0].sandbox.mounts[0].source = { kind: 'spec-folder', path: 'data/in' };
  expect(checkPlan(JSON.parse(JSON.stringify(toWire(plan as Plan))))).toEqual({ plan });
});

test('the wire form keeps the prepared sandbox of a VM, and the check refuses one without a text', () => {
  const plan = fresh();
  plan.scopes[0].sandbox.prepared = 'deps';
  expect(checkPlan(JSON.parse(JSON.stringify(toWire(plan as Plan))))).toEqual({ plan });
  expect(problemsOf((other) => (other.scopes[0].sandbox.prepared = 1))).toEqual([
    expect.stringMatching(/^scopes\.0\.sandbox\.prepared: /),
  ]);
});

test('the wire form keeps that a VM boots, and the check refuses another word for its start', () => {
  const plan = fresh();
  plan.scopes[0].sandbox.start = 'cold';
  expect(checkPlan(JSON.parse(JSON.stringify(toWire(plan as Plan))))).toEqual({ plan });
  expect(problemsOf((other) => (other.scopes[0].sandbox.start = 'snapshot'))).toEqual([
    expect.stringMatching(/^scopes\.0\.sandbox\.start: /),
  ]);
});

/** Adds a stage that ends a part with the stage `a`. */
const withPart =
  (change: object, stage: object = {}) =>
  (plan: any): unknown =>
    plan.stages.push({
      id: 'part',
      scope: null,
      after: ['a'],
      work: { kind: 'part', source: './a.yaml', stages: ['a'], output: { kind: 'stage', stage: 'a' }, ...change },
      ...stage,
    });

test('the wire form keeps the end of a part', () => {
  const plan = fresh();
  withPart({})(plan);
  const checked = checkPlan(plan) as { plan: Plan };
  expect(checked.plan.stages.at(-1)).toMatchObject({ scope: null, work: { kind: 'part', source: './a.yaml' } });
  expect(checkPlan(JSON.parse(JSON.stringify(toWire(checked.plan))))).toEqual(checked);
});

describe('the check refuses', () => {
  test.each<[string, (plan: any) => unknown, RegExp]>([
    ['another version', (plan) => (plan.version = 2), /^version: /],
    ['an unknown key', (plan) => (plan.stages[0].extra = 1), /^stages.0: .*extra/],
    ['a stage without work', (plan) => delete plan.stages[0].work, /^stages.0.work/],
    ['work of an unknown kind', (plan) => (plan.stages[0].work.kind = 'spell'), /^stages.0.work.kind/],
    ['a missing key', (plan) => delete plan.stages[0].work.program, /^stages.0.work.program: /],
    ['a fraction for a number of stages', (plan) => (plan.maxParallel = 1.5), /^maxParallel: /],
    ['a stage id with a slash', (plan) => (plan.stages[0].id = 'a/b'), /^stages.0.id: /],
    ['a zero byte', (plan) => plan.stages[0].work.args.push('\0'), /zero byte/],
    [
      'an unknown kind of value',
      (plan) => (plan.stages[0].work.env[0].value = { kind: 'secret' }),
      /^stages.0.work.env.0.value/,
    ],
    ['no stages', (plan) => (plan.stages = []), /^stages: /],
    ['two stages of one id', (plan) => plan.stages.push(plan.stages[0]), /two stages have the id a/],
    ['two scopes of one id', (plan) => plan.scopes.push(plan.scopes[0]), /two scopes have the id/],
    [
      'a part with a stage that is not there',
      withPart({ stages: ['z'] }),
      /ends a part with the stage z, which is not another/,
    ],
    ['a part of itself', withPart({ stages: ['part'] }), /ends a part with the stage part, which is not another/],
    ['a part that has a stage twice', withPart({ stages: ['a', 'a'] }), /ends a part that has the stage a twice/],
    [
      'a part whose output is of a stage that it does not wait for',
      withPart({ output: { kind: 'stage', stage: 'b' } }),
      /uses data of b and does not depend on its success/,
    ],
    [
      'a part that merges an output twice',
      withPart({ output: { kind: 'merge', of: [0, 1].map(() => ({ name: 'a', stage: 'a' })) } }),
      /stage part merges two outputs as a/,
    ],
    [
      'a part that is tolerated, of which another stage needs one',
      withPart({}, { continueOnError: true }),
      /stage b needs a of the part part, whose failure is tolerated as a whole/,
    ],
    [
      'a part with attempts',
      withPart({}, { retry: { maxAttempts: 2, backoffMs: 0 } }),
      /ends a part and has fields that only commands have/,
    ],
    ['a part in a VM', withPart({}, { scope: 'a' }), /needs no VM and has the scope a/],
    [
      'a stage in no scope',
      (plan) => plan.scopes[0].stages.pop(),
      /stage b is listed in 0 scopes; it must be listed in one/,
    ],
    ['a stage in a scope that does not hold it', (plan) => (plan.stages[0].scope = 'other'), /holds the stage a/],
    ['a dependency that does not exist', (plan) => plan.stages[0].after.push('z'), /depends on z/],
    ['a dependency named twice', (plan) => plan.stages[1].after.push({ stage: 'a', on: 'end' }), /depends on a twice/],
    ['an edge on something else', (plan) => (plan.stages[1].after[0].on = 'monday'), /^stages.1.after.0/],
    [
      'data over an edge that is not on success',
      (plan) => (plan.stages[1].after[0].on = 'end'),
      /uses data of a and does not depend on its success/,
    ],
    ['a command without a scope', (plan) => (plan.stages[0].scope = null), /stage a needs a VM and has no scope/],
    ['data of a stage that is not waited for', (plan) => (plan.stages[1].after = []), /uses data of a/],
    ['an output that does not exist', (plan) => (plan.stages[1].inputs[0].output = 'z'), /takes the output z of a/],
    ['a cycle', (plan) => plan.stages[0].after.push('b'), /wait for each other: a, b/],
    ['an output stage that does not exist', (plan) => (plan.output.stage = 'z'), /output is the output of stage z/],
    [
      'an output of one stage twice',
      (plan) => (plan.output = { kind: 'merge', stages: ['a', 'b', 'a'] }),
      /output merges a twice/,
    ],
    ['an output of nothing', (plan) => (plan.output = { kind: 'merge', stages: [] }), /^output.stages: /],
    ['a relative host path', (plan) => (plan.scopes[0].sandbox.mounts[0].source.path = 'data'), /mounts.0.source.path/],
    [
      'a path out of the spec folder',
      (plan) => (plan.scopes[0].sandbox.mounts[0].source = { kind: 'spec-folder', path: '../up' }),
      /mounts.0.source.path/,
    ],
    [
      'an image that is a path and no hash',
      (plan) => (plan.scopes[0].sandbox.image = { kind: 'disk', sha256: '../../../etc' }),
      /image/,
    ],
    [
      'an image with a path beside its hash',
      (plan) => (plan.scopes[0].sandbox.image = { kind: 'disk', sha256: 'a'.repeat(64), path: '/etc' }),
      /image/,
    ],
    [
      'a mount from two places',
      (plan) => (plan.scopes[0].sandbox.mounts[0].hostPath = '/data'),
      /either `source` or `hostPath`/,
    ],
    [
      'a host path that climbs',
      (plan) => (plan.scopes[0].sandbox.mounts[0].source.path = '/data/../etc'),
      /mounts.0.source.path/,
    ],
    [
      'a mount on a system folder',
      (plan) => (plan.scopes[0].sandbox.mounts[0].guestPath = '/proc'),
      /mounts.0.guestPath/,
    ],
    [
      'a read-only mount on the workspace',
      (plan) => (plan.scopes[0].sandbox.mounts[0].guestPath = '/workspace'),
      /read-only mount on \/workspace/,
    ],
    [
      'mounts in each other',
      (plan) => (plan.scopes[0].sandbox.mounts[1].guestPath = '/data/deep'),
      /on or in each other: \/data, \/data\/deep/,
    ],
    [
      'a writable mount of shared files',
      (plan) => (plan.scopes[0].sandbox.mounts[1].source.path = '/data/deep'),
      /shares host files/,
    ],
    ['isolation of the mock', (plan) => (plan.scopes[0].sandbox.mode = 'mock'), /requires isolation microvm/],
    ['a variable that is not declared', (plan) => (plan.hostVariables = []), /lacks TOKEN/],
    ['a variable that no stage reads', (plan) => plan.hostVariables.push('HOME'), /has HOME/],
    ['more memory than any VM gets', (plan) => (plan.scopes[0].sandbox.memoryMib = 100_000), /memoryMib/],
    ['too many bytes', (plan) => plan.stages[0].work.args.push('x'.repeat(17_000_000)), /bytes; at most/],
    [
      'far too many bytes',
      (plan) => plan.stages[0].work.args.push('x'.repeat(40_000_000)),
      /^the plan has \d+ bytes; at most/,
    ],
  ])('%s', (_what, change, problem) => {
    expect(problemsOf(change)).toContainEqual(expect.stringMatching(problem));
  });

  test.each([[undefined], [null], [7], ['plan'], [[]], [{}], [() => 1], [{ version: 1n }]])('%s', (value) => {
    expect(checkPlan(value)).toHaveProperty('problems');
  });

  test('a value that contains itself', () => {
    const value: Record<string, unknown> = {};
    value['self'] = value;
    expect(checkPlan(value)).toEqual({ problems: ['the plan is not JSON'] });
  });
});

describe('a plan with stages that wait or whose failure is tolerated', () => {
  const SPEC = `kind: workflow
name: flow
workflow:
  steps:
    - { name: lint, continue_on_error: true, run: { program: "true" }, outputs: [{ name: o }] }
    - { name: pause, depends_on: [lint], wait: { for: 1s } }
    - { name: last, depends_on: [lint, pause], run: { program: cat } }
`;
  const broken = (change: (plan: any) => unknown): readonly string[] => problemsAfter(compiled(SPEC), change);

  test('is admitted', () => {
    expect(broken(() => undefined)).toEqual([]);
  });

  test.each<[string, (plan: any) => unknown, RegExp]>([
    [
      'standard input of a failure',
      (plan) => (plan.stages[2].work.stdin = { kind: 'stage-output', stage: 'lint' }),
      /uses data of lint, which may be absent/,
    ],
    [
      'inputs of a failure',
      (plan) => plan.stages[2].inputs.push({ fromStage: 'lint', output: 'o', guestPath: '/x' }),
      /uses data of lint, which may be absent/,
    ],
    [
      'data of a wait',
      (plan) => (plan.stages[2].input = { kind: 'carry', stage: 'pause' }),
      /uses data of pause, which is a wait and has no output/,
    ],
    [
      'a merge of a wait',
      (plan) => (plan.output = { kind: 'merge', stages: ['pause'] }),
      /merges pause, which is a wait/,
    ],
    ['a wait without an end', (plan) => (plan.stages[1].work.forMs = null), /one of `forMs`, `untilMs` and `until`/],
    ['a wait with two ends', (plan) => (plan.stages[1].work.untilMs = 1), /one of `forMs`, `untilMs` and `until`/],
    ['a wait that is too long', (plan) => (plan.stages[1].work.forMs = 401 * 86_400_000), /stages.1.work.forMs/],
    [
      'a wait until no time',
      (plan) => (plan.stages[1].work = { kind: 'wait', untilMs: 9e15 }),
      /stages.1.work.untilMs/,
    ],
    [
      'an approval that approves itself at its deadline',
      (plan) => {
        const at = { selfApproval: false, timeoutMs: 1_000, onTimeout: 'approve' };
        plan.stages[1].work = { kind: 'approval', message: 'Go on?', ...at };
      },
      /no `onTimeout: approve` with `selfApproval: false`/,
    ],
    ['a wait in a VM', (plan) => (plan.stages[1].scope = '_shared'), /stage pause needs no VM/],
    ['a tolerance that is no flag', (plan) => (plan.stages[0].continueOnError = 'yes'), /continueOnError/],
  ])('with %s is refused', (_what, change, message) => {
    expect(broken(change).join('\n')).toMatch(message);
  });
});
