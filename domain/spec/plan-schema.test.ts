// oxlint-disable typescript/no-explicit-any -- plans that break their type are the subject
import { describe, expect, test } from 'vitest';
import type { Plan } from '../plan/plan.ts';
import { toWire } from '../plan/wire.ts';
import { checkExpressions } from './expression/check.ts';
import { compileText } from './load.ts';
import { checkPlan } from './plan-schema.ts';

const TEXT = `kind: workflow
name: sales
sandbox: { mounts: [{ host: /data, guest: /data }, { host: /out, guest: /out, mode: rw }] }
workflow:
  steps:
    - { name: a, run: { program: "true" }, env: { TOKEN: "" }, outputs: [{ name: o }] }
    - { name: b, run: { program: cat, stdin_from: a }, inputs: [{ from: o }] }
`;

/** A plan that anything may be written into. */
function fresh(): any {
  return JSON.parse(JSON.stringify(compileText(TEXT, 'x.yaml', { baseDir: '/' }).plan)) as unknown;
}

function problemsOf(change: (plan: any) => unknown): readonly string[] {
  const plan = fresh();
  change(plan);
  const checked = checkPlan(plan);
  return 'problems' in checked ? checked.problems : [];
}

test('what the compiler makes is admitted', () => {
  expect(checkPlan(fresh())).toEqual({ plan: fresh() as Plan });
});

test('a plan that leaves out its defaults is filled', () => {
  const sent = {
    version: 1,
    kind: 'workflow',
    name: 'least',
    stages: [{ id: 'a', run: { program: 'true' } }],
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
    expect.arrayContaining(['stage a is held by 0 scopes']),
  );
});

test('a plan as the first builds sent it means what it meant', () => {
  const plan = fresh();
  const sent = {
    ...plan,
    stages: plan.stages.map(({ work: { kind: _kind, stdin, ...run }, after, ...stage }: any) => ({
      ...stage,
      dependsOn: after.map((edge: any) => edge.stage),
      run,
      stdin,
    })),
    scopes: plan.scopes.map((scope: any) => ({
      ...scope,
      sandbox: {
        ...scope.sandbox,
        mounts: scope.sandbox.mounts.map(({ source, ...mount }: any) => ({ hostPath: source.path, ...mount })),
      },
    })),
  };
  expect(checkPlan(sent)).toEqual({ plan });
});

test('edges on the end and on a failure, and a folder beside the spec, travel', () => {
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

/** A stage that ends the part of `a`. */
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

test('the end of a part travels', () => {
  const plan = fresh();
  withPart({})(plan);
  const checked = checkPlan(plan) as { plan: Plan };
  expect(checked.plan.stages.at(-1)).toMatchObject({ scope: null, work: { kind: 'part', source: './a.yaml' } });
  expect(checkPlan(JSON.parse(JSON.stringify(toWire(checked.plan))))).toEqual(checked);
});

describe('refused', () => {
  test.each<[string, (plan: any) => unknown, RegExp]>([
    ['another version', (plan) => (plan.version = 2), /^version: /],
    ['an unknown key', (plan) => (plan.stages[0].extra = 1), /^stages.0: .*extra/],
    ['a stage without work', (plan) => delete plan.stages[0].work, /^stages.0: either `work` or `run`/],
    ['work said twice', (plan) => (plan.stages[0].run = { program: 'true' }), /^stages.0: either `work` or `run`/],
    ['work of an unknown kind', (plan) => (plan.stages[0].work.kind = 'spell'), /^stages.0.work.kind/],
    ['a missing key', (plan) => delete plan.stages[0].work.program, /^stages.0.work.program: /],
    ['a number that is none', (plan) => (plan.maxParallel = 1.5), /^maxParallel: /],
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
      /takes data of b and does not depend on its success/,
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
      /ends a part and has what only a command has/,
    ],
    ['a part in a VM', withPart({}, { scope: 'a' }), /needs no VM and has the scope a/],
    ['a stage in no scope', (plan) => plan.scopes[0].stages.pop(), /stage b is held by 0 scopes/],
    ['a stage in a scope that does not hold it', (plan) => (plan.stages[0].scope = 'other'), /holds the stage a/],
    ['a dependency that does not exist', (plan) => plan.stages[0].after.push('z'), /depends on z/],
    ['a dependency named twice', (plan) => plan.stages[1].after.push({ stage: 'a', on: 'end' }), /depends on a twice/],
    ['edges said twice', (plan) => (plan.stages[1].dependsOn = ['a']), /^stages.1: either `after` or `dependsOn`/],
    ['an edge on something else', (plan) => (plan.stages[1].after[0].on = 'monday'), /^stages.1.after.0/],
    [
      'data over an edge that is not on success',
      (plan) => (plan.stages[1].after[0].on = 'end'),
      /takes data of a and does not depend on its success/,
    ],
    ['a command without a scope', (plan) => (plan.stages[0].scope = null), /stage a needs a VM and has no scope/],
    ['data of a stage that is not waited for', (plan) => (plan.stages[1].after = []), /takes data of a/],
    ['an output that does not exist', (plan) => (plan.stages[1].inputs[0].output = 'z'), /takes the output z of a/],
    ['a cycle', (plan) => plan.stages[0].after.push('b'), /wait for each other: a, b/],
    ['an output stage that does not exist', (plan) => (plan.output.stage = 'z'), /output is of the stage z/],
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
    ['isolation of the mock', (plan) => (plan.scopes[0].sandbox.mode = 'mock'), /demands isolation microvm/],
    ['a variable that is not declared', (plan) => (plan.hostVariables = []), /lacks TOKEN/],
    ['a variable that nobody reads', (plan) => plan.hostVariables.push('HOME'), /has HOME/],
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

  test('a value that holds itself', () => {
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
  const broken = (change: (plan: any) => unknown): readonly string[] => {
    const plan = JSON.parse(JSON.stringify(compileText(SPEC, 'x.yaml', { baseDir: '/' }).plan)) as any;
    change(plan);
    const checked = checkPlan(plan);
    return 'problems' in checked ? checked.problems : [];
  };

  test('is admitted', () => {
    expect(broken(() => undefined)).toEqual([]);
  });

  test.each<[string, (plan: any) => unknown, RegExp]>([
    [
      'standard input of a failure',
      (plan) => (plan.stages[2].work.stdin = { kind: 'stage-output', stage: 'lint' }),
      /takes data of lint, which may fail/,
    ],
    [
      'inputs of a failure',
      (plan) => plan.stages[2].inputs.push({ fromStage: 'lint', output: 'o', guestPath: '/x' }),
      /takes data of lint, which may fail/,
    ],
    [
      'data of a wait',
      (plan) => (plan.stages[2].input = { kind: 'carry', stage: 'pause' }),
      /takes data of pause, which waits and has none/,
    ],
    ['a merge of a wait', (plan) => (plan.output = { kind: 'merge', stages: ['pause'] }), /merges pause, which waits/],
    ['a wait without an end', (plan) => (plan.stages[1].work.forMs = null), /one of `forMs`, `untilMs` and `until`/],
    ['a wait with two ends', (plan) => (plan.stages[1].work.untilMs = 1), /one of `forMs`, `untilMs` and `until`/],
    ['a wait that is too long', (plan) => (plan.stages[1].work.forMs = 401 * 86_400_000), /stages.1.work.forMs/],
    [
      'a wait until no time',
      (plan) => (plan.stages[1].work = { kind: 'wait', untilMs: 9e15 }),
      /stages.1.work.untilMs/,
    ],
    ['a wait in a VM', (plan) => (plan.stages[1].scope = '_shared'), /stage pause needs no VM/],
    ['a tolerance that is no flag', (plan) => (plan.stages[0].continueOnError = 'yes'), /continueOnError/],
  ])('with %s is refused', (_what, change, message) => {
    expect(broken(change).join('\n')).toMatch(message);
  });
});

describe('texts with outputs', () => {
  const made = {
    sources: ['stages.a.json.tag + params.n'],
    stages: ['a'],
    params: { n: 'x' },
    texts: [{ place: { kind: 'env', name: 'TAG' }, parts: ['v', 0] }],
  };
  const withTexts = (change: object, other: (stage: any) => void = () => undefined): readonly string[] =>
    problemsOf((plan) => {
      plan.stages[1].work.env = [{ name: 'TAG', value: { kind: 'literal', text: 'as written' } }];
      plan.stages[1].texts = { ...made, ...change };
      other(plan.stages[1]);
      return plan;
    });
  const at = (place: object, parts: readonly unknown[] = [0]): object => ({ texts: [{ place, parts }] });

  test('that say what they read are admitted, as they travel too', () => {
    expect(withTexts({})).toEqual([]);
    const plan = fresh();
    plan.stages[1].work.args = ['as written'];
    plan.stages[1].texts = { ...made, ...at({ kind: 'arg', index: 0 }) };
    expect(checkPlan(JSON.parse(JSON.stringify(toWire(plan as Plan))))).toEqual({ plan });
  });

  test.each<[object, RegExp]>([
    [{ sources: ['stages.a.json.'] }, /^stage b: texts: /],
    [{ sources: ['stages.a.state + params.n'] }, /`.state` is for `when`/],
    [{ sources: ['stages.c.output + params.n'] }, /texts.stages are not the stages that its texts read/],
    [{ stages: ['a', 'a'] }, /texts have a twice/],
    [{ stages: [] }, /texts.stages are not the stages that its texts read/],
    [{ sources: ['stages.a.json.tag + params.n + item'] }, /stage b: texts: unknown variable: item/],
    [{ params: {} }, /texts.params are not the parameters/],
    [{ params: { n: 1, m: 1 } }, /texts.params are not the parameters/],
    [at({ kind: 'arg', index: 9 }), /its work has no args\[9\]/],
    [at({ kind: 'env', name: 'PATH' }), /its work has no env.PATH/],
    [at({ kind: 'message' }), /stage b: its work has no message/],
    [at({ kind: 'prompt' }), /stage b: its work has no prompt/],
    [at({ kind: 'program' }), /stages.1.texts.texts.0.place/],
    [at({ kind: 'env', name: 'TAG' }, [1]), /env.TAG has an expression that texts.sources lacks/],
    [{ texts: [...made.texts, ...made.texts] }, /two texts are env.TAG/],
    [{ sources: Array.from({ length: 65 }, (_, n) => `stages.a.output + "${n}"`) }, /stages.1.texts.sources/],
  ])('are refused %#', (change, problem) => {
    expect(withTexts(change).join('\n')).toMatch(problem);
  });

  test('of a stage with items read the item, and need no stage', () => {
    const each = { list: { kind: 'inline', items: ['a'] }, maxParallel: 1, failFast: false, allowFailures: 0 };
    const ofItem = { sources: ['item + string(item_index)'], stages: [], params: {} };
    expect(withTexts(ofItem).join()).toMatch(/unknown variable: item/);
    const withItems = withTexts(ofItem, (stage) => {
      stage.each = each;
      stage.scope = stage.id;
    });
    expect(withItems.join()).not.toMatch(/texts/);
  });

  test('are refused of a stage that is not waited for', () => {
    expect(withTexts({}, (stage) => (stage.after = [])).join('\n')).toMatch(
      /stage b takes data of a and does not depend on its success/,
    );
  });
});

describe('a loop', () => {
  const SPEC = `kind: pipeline
name: x
pipeline:
  boxes: [{ name: a, run: { program: cat } }, { name: b, run: { program: cat } }]
  stages: [{ type: loop, name: l, boxes: [a, b], until: stages.b.json.ok, max_visits: 3 }]
`;
  const broken = (change: (plan: any) => unknown): readonly string[] => {
    const options = { baseDir: '/', checkExpression: checkExpressions };
    const plan = JSON.parse(JSON.stringify(compileText(SPEC, 'x.yaml', options).plan)) as any;
    change(plan);
    const checked = checkPlan(plan);
    return 'problems' in checked ? checked.problems : [];
  };

  test('is admitted', () => {
    expect(broken(() => undefined)).toEqual([]);
  });

  test.each<[string, (plan: any) => unknown, RegExp]>([
    ['more visits than may be', (plan) => (plan.stages[2].loop.maxVisits = 1_001), /loop.maxVisits/],
    [
      'visits that its stages do not have',
      (plan) => (plan.stages[0].visits = 4),
      /stage a may be done in 3 visits, and says 4/,
    ],
    ['visits outside of it', (plan) => (plan.stages[2].visits = 2), /stage l may be done in 1 visits, and says 2/],
    [
      'a stage that it does not wait for',
      (plan) => plan.stages[2].after.splice(1),
      /stage l ends a loop and does not wait for a/,
    ],
    ['an input of no loop', (plan) => (plan.stages[0].again = ['b']), /which is no loop around it/],
    ['a condition of its own', (plan) => (plan.stages[2].when = { source: 'true' }), /has a condition of its own/],
    [
      'what its condition does not read',
      (plan) => plan.stages[2].loop.until.stages.push('a'),
      /loop.until.stages has a/,
    ],
    [
      'a merge',
      (plan) => (plan.stages[2].work.output = { kind: 'merge', of: [{ name: 'b', stage: 'b' }] }),
      /does not hand on the output/,
    ],
    [
      'stages that share a VM',
      (plan) => {
        plan.stages[1].scope = 'a';
        plan.scopes = [{ ...plan.scopes[0], stages: ['a', 'b'] }];
      },
      /stage a is in the loop l and shares its VM/,
    ],
    [
      'a stage that waits for a failure',
      (plan) => (plan.stages[1].after = [{ stage: 'a', on: 'failure' }]),
      /stage b is in the loop l and waits for a failure/,
    ],
  ])('with %s is refused', (_what, change, message) => {
    expect(broken(change).join('\n')).toMatch(message);
  });

  test('may wait for a failure before it', () => {
    const ofFailure = broken((plan) => {
      plan.stages[0].after = [{ stage: 'early', on: 'failure' }];
      plan.stages.unshift({ ...plan.stages[0], id: 'early', scope: 'early', after: [] });
      delete plan.stages[0].visits;
      delete plan.stages[0].again;
      plan.scopes.push({ ...plan.scopes[0], id: 'early', stages: ['early'] });
    });
    expect(ofFailure).toEqual([]);
  });

  test('has at most 5,000 runs of its stages', () => {
    const boxes = Array.from({ length: 6 }, (_, at) => `b${at}`);
    const { diagnostics } = compileText(
      `kind: pipeline
name: x
pipeline:
  boxes: [${boxes.map((name) => `{ name: ${name}, run: { program: cat } }`).join(', ')}]
  stages: [{ type: loop, name: l, boxes: [${boxes.join(', ')}], until: "true", max_visits: 1000 }]
`,
      'x.yaml',
      { baseDir: '/', checkExpression: checkExpressions },
    );
    expect(diagnostics.map(({ code, message }) => `${code} ${message}`)).toEqual([
      'spec/too-large the boxes in loops may run 6000 times in all; at most 5000 are allowed',
    ]);
  });
});

describe('a condition', () => {
  const when = { source: 'stages.a.json.ok && params.n > 1', stages: ['a'], params: { n: 2 } };
  const withWhen = (change: object): readonly string[] =>
    problemsOf((plan) => {
      plan.stages[1].when = { ...when, ...change };
      return plan;
    });

  test('that reads what its plan says is admitted, as it travels too', () => {
    expect(withWhen({})).toEqual([]);
    const plan = fresh();
    plan.stages[1].when = when;
    expect(checkPlan(JSON.parse(JSON.stringify(toWire(plan as Plan))))).toEqual({ plan });
  });

  test.each<[object, string]>([
    [{ source: 'stages.a.json.ok &&' }, 'stage b: when: unexpected token: EOF'],
    [{ source: 'true' }, 'stage b: when.stages has a, which is not read'],
    [{ stages: [] }, 'stage b: when.stages lacks a'],
    [{ stages: ['a', 'a'] }, 'stage b: when.stages has a twice'],
    [{ params: {} }, 'stage b: when.params lacks n'],
    [{ params: { n: 2, m: 1 } }, 'stage b: when.params has m, which is not read'],
    [
      { source: 'stages.c.state == ""', stages: ['c'], params: {} },
      'stage b is decided by c and does not depend on it',
    ],
    [{ source: 'x'.repeat(5_000) }, 'stages.1.when.source: Too big: expected string to have <=4096 characters'],
    [{ params: { n: deep(40) } }, 'stages.1.when.params.n: JSON that is not nested too deep'],
  ])('is refused %#', (change, problem) => {
    expect(withWhen(change)).toContain(problem);
  });

  test('of a stage keeps others from taking its data', () => {
    const problems = problemsOf((plan) => {
      plan.stages[0].when = { source: 'true' };
      return plan;
    });
    expect(problems).toEqual(['stage b takes data of a, which may fail or be passed and let it start without']);
  });

  function deep(levels: number): unknown {
    return levels === 0 ? 1 : [deep(levels - 1)];
  }
});

describe('a stage that runs whatever happens', () => {
  const withLast = (change: (plan: any, last: any) => unknown = () => undefined): readonly string[] =>
    problemsOf((plan) => {
      const [first] = plan.stages;
      const last = { ...first, id: 'last', scope: 'last', finally: true, outputs: [], input: { kind: 'none' } };
      plan.stages.push(last);
      plan.scopes.push({ ...plan.scopes[0], id: 'last', stages: ['last'] });
      plan.graceMs = 60_000;
      change(plan, last);
    });

  test('may come to a mock, as a retry of a run that mocked it has it', () => {
    expect(
      withLast((plan, last) => {
        last.work = { kind: 'mock', output: '', exitCode: 0 };
        last.scope = null;
        plan.scopes.pop();
      }),
    ).toEqual([]);
  });

  test('is admitted, also with data that may be absent and a condition on any other', () => {
    const taken = { fromStage: 'a', output: 'o', guestPath: '/workspace/in', optional: true };
    expect(withLast()).toEqual([]);
    expect(withLast((_plan, last) => (last.inputs = [taken]))).toEqual([]);
    expect(
      withLast((_plan, last) => (last.when = { source: 'stages.b.state == "failed"', stages: ['b'], params: {} })),
    ).toEqual([]);
  });

  test.each<[string, (plan: any, last: any) => unknown, string]>([
    ['after others', (_plan, last) => (last.after = ['a']), 'stage last has `finally` and depends on others'],
    ['before others', (plan) => (plan.stages[1].after = ['a', 'last']), 'stage b depends on last, which has `finally`'],
    ['no time', (plan) => delete plan.graceMs, 'graceMs is missing: stages have `finally`'],
    [
      'the result',
      (plan) => (plan.output = { kind: 'stage', stage: 'last' }),
      'the output is of the stage last, which has `finally`',
    ],
    [
      'outputs',
      (_plan, last) => (last.outputs = [{ name: 'x', guestPath: '/workspace/x' }]),
      'stage last has `finally` and is no plain command without named outputs',
    ],
    [
      'data that it demands',
      (_plan, last) => (last.inputs = [{ fromStage: 'a', output: 'o', guestPath: '/workspace/in' }]),
      'stage last takes data of a, which may fail or be passed and let it start without',
    ],
    [
      'a carry',
      (_plan, last) => (last.input = { kind: 'carry', stage: 'a' }),
      'stage last has `finally` and the output of others as its input',
    ],
    [
      'the VM of others',
      (plan, last) => {
        last.scope = '_shared';
        plan.scopes.pop();
        plan.scopes[0].stages.push('last');
      },
      'stage last has `finally` and shares its VM',
    ],
    [
      'itself alone',
      (plan) => {
        for (const stage of plan.stages) Object.assign(stage, { finally: true });
      },
      'every stage has `finally`',
    ],
    [
      'sixteen others',
      (plan, last) => {
        for (let more = 0; more < 16; more += 1) {
          plan.stages.push({ ...last, id: `m${more}`, scope: `m${more}` });
          plan.scopes.push({ ...plan.scopes.at(-1), id: `m${more}`, stages: [`m${more}`] });
        }
      },
      '17 stages have `finally`; at most 16 may',
    ],
  ])('with %s is refused', (_what, change, problem) => {
    expect(withLast(change)).toContain(problem);
  });

  test('is missed by a time for it', () => {
    expect(problemsOf((plan) => (plan.graceMs = 60_000))).toEqual([
      'graceMs is of stages with `finally`; there is none',
    ]);
  });
});
