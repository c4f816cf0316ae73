/** Specs that use others: their runs end correctly, whatever their stages return, and have limits. */
import { describe, expect, test } from 'vitest';
import { randomOf } from '../../test/machine/random.ts';
import { type Ending, transitionBound, World } from '../../test/machine/world.ts';
import { holdsOnlyWith } from '../plan/both-conditions.ts';
import { withMocks } from '../plan-rules/mocks.ts';
import { machinePlanOf } from '../pipeline/machine-plan.ts';
import { flattenRows } from '../pipeline/rows.ts';
import { type Plan, PLAN_LIMITS } from '../plan/plan.ts';
import { partOf } from '../plan/work.ts';
import { checkExpressions } from './expression/check.ts';
import { evaluateCondition } from './expression/evaluate.ts';
import { compileText } from './load.ts';
import { checkPlan } from './check-plan.ts';

/** `files` are texts by path; the first is the spec itself. */
function compiled(files: Readonly<Record<string, string>>): ReturnType<typeof compileText> {
  const [file, text] = Object.entries(files)[0]!;
  return compileText(text, file, {
    baseDir: '/specs',
    checkExpression: checkExpressions,
    readSpec: (path) => {
      const found = files[path.replace(/^\/specs\//, '')];
      return found === undefined ? { problem: 'there is no such file' } : { text: found };
    },
  });
}

function planIn(files: Readonly<Record<string, string>>): Plan {
  const { plan, diagnostics } = compiled(files);
  expect(diagnostics.filter(({ severity }) => severity === 'error')).toEqual([]);
  expect(checkPlan(JSON.parse(JSON.stringify(plan)))).toEqual({ plan });
  return plan!;
}

const workflow = (steps: readonly string[], more = ''): string =>
  `kind: workflow\nname: x\n${more}workflow:\n  output_step: ${/name: ([\w.]+)/.exec(steps[0]!)![1]!}\n  steps:\n${steps.map((step) => `    - { ${step} }\n`).join('')}`;
const run = (name: string, more = ''): string => `name: ${name}, run: { program: "true" }${more}`;

/** Steps with random dependencies. The first step is the result, so its failure is not tolerated. */
function randomSteps(random: (below: number) => number, uses: readonly string[]): readonly string[] {
  const ids = Array.from({ length: 1 + random(6) }, (_, index) => `s${index}`);
  const last = new Set(ids.filter((_, index) => index > 0 && random(10) === 0));
  return ids.map((id, index) => {
    if (last.has(id)) return run(id, ', finally: true');
    const before = ids.slice(0, index).filter((each) => !last.has(each));
    const after = before.filter(() => random(3) === 0);
    const failing = before.filter((each) => !after.includes(each) && random(5) === 0);
    const edges = `, depends_on: [${after.join(', ')}], on_failure: [${failing.join(', ')}]`;
    const file = uses[random(3 * uses.length)];
    if (file !== undefined) return `name: ${id}, uses: ./${file}${edges}`;
    return run(
      id,
      `${edges}${index > 0 && random(4) === 0 ? ', continue_on_error: true' : ''}${random(2) === 0 ? ', sandbox: { vcpus: 1 }' : ''}`,
    );
  });
}

test("a list of a part uses the run's `max_parallel` if it sets no other, also in a file that sets one", () => {
  const list = (more = ''): string => run('each', `, for_each: [1, 2]${more}`);
  const planOf = (own: string, inPart: string, more = ''): readonly (number | undefined)[] => {
    const files = {
      'x.yaml': workflow(
        [`name: near, uses: near`, 'name: far, uses: ./p.yaml'],
        `${own}parts:\n  near: { workflow: { steps: [{ ${list(more)} }] } }\n`,
      ),
      'p.yaml': workflow([list(more)], inPart),
    };
    return planIn(files).stages.flatMap(({ each }) => (each === undefined ? [] : [each.maxParallel]));
  };
  expect(planOf('max_parallel: 7\n', 'max_parallel: 2\n')).toEqual([7, 7]);
  expect(planOf('max_parallel: 7\n', '')).toEqual([7, 7]);
  expect(planOf('', 'max_parallel: 2\n')).toEqual([4, 4]);
  expect(planOf('max_parallel: 7\n', '', ', max_parallel: 3')).toEqual([3, 3]);
});

const ENDINGS: readonly Ending[] = ['ok', 'ok', 'ok', 'ok', 'fail', 'lost', 'broken'];

test('a part ends once all of it has succeeded, and a stage that waits for its failure starts once one of its stages has failed', () => {
  const seen = { succeeded: 0, failed: 0, undone: 0 };
  for (let seed = 1; seed <= 80; seed += 1) {
    const random = randomOf(seed);
    const plan = planIn({
      'spec.yaml': workflow([
        // The step has its own VM: in a shared VM, it might run again after the part has begun.
        run('a', ', sandbox: { vcpus: 1 }'),
        'name: p, uses: ./p.yaml, depends_on: [a]',
        run('u', ', on_failure: [p]'),
        run('z', ', depends_on: [p]'),
      ]),
      'p.yaml': workflow(randomSteps(random, ['q.yaml'])),
      'q.yaml': workflow(randomSteps(random, [])),
    });
    const machine = machinePlanOf(plan);
    const world = new World(machine);
    const bound = transitionBound(machine);
    while (world.outcome === null && world.transitions < bound && world.pending.length > 0) {
      const index = random(world.pending.length);
      const command = world.pending[index]!;
      const isPart = command.type === 'run-stage' && partOf(stageOf(plan, command.stageId).work) !== null;
      world.answerAt(index, command.type === 'acquire-vm' || isPart ? 'ok' : ENDINGS[random(seed % 3 === 0 ? 4 : 7)]!);
    }
    const phases = Object.fromEntries(
      flattenRows(world.state.stages).map(({ phase }, index) => [machine.stages[index]!.id, phase]),
    );
    const told = `seed ${seed}: ${JSON.stringify(phases)}; ${world.log.join('; ')}`;
    expect(world.complaints, told).toEqual([]);
    expect(world.outcome, told).not.toBeNull();
    const own = partOf(stageOf(plan, 'p').work)!.stages.filter((id) => stageOf(plan, id).finally !== true);
    const failed = own.filter((id) => phases[id] === 'failed' && stageOf(plan, id).continueOnError !== true);
    const mayBegin = phases['a'] === 'succeeded';
    const hasFailed = failed.length > 0;
    expect(
      {
        p: phases['p'],
        isZSkipped: phases['z'] === 'skipped',
        isUSkipped: phases['u'] === 'skipped',
        begunTooEarly: mayBegin ? [] : own.filter((id) => phases[id] !== 'skipped'),
        mayBeTheState: !hasFailed || world.outcome!.state === 'failed',
      },
      told,
    ).toEqual({
      p: mayBegin && !hasFailed ? 'succeeded' : 'skipped',
      isZSkipped: !mayBegin || hasFailed,
      isUSkipped: !hasFailed,
      begunTooEarly: [],
      mayBeTheState: true,
    });
    if (!mayBegin) continue;
    seen[failed.length === 0 ? 'succeeded' : 'failed'] += 1;
    if (phases['u'] === 'succeeded') seen.undone += 1;
  }
  expect(Math.min(seen.succeeded, seen.failed, seen.undone)).toBeGreaterThan(5);
});

test('a run mocks stages within a part by their names in the plan', () => {
  const plan = planIn({
    'spec.yaml': workflow([run('a'), 'name: p, uses: ./p.yaml']),
    'p.yaml': workflow([run('s', ', mock: { output: hi }'), run('t', ', depends_on: [s]')]),
  });
  const mocked = withMocks(plan, ['p.s']);
  if ('problems' in mocked) throw new Error(mocked.problems.join());
  expect(stageOf(mocked.plan, 'p.s').work).toEqual({ kind: 'mock', output: 'hi', exitCode: 0 });
  expect(checkPlan(JSON.parse(JSON.stringify(mocked.plan)))).toEqual({ plan: mocked.plan });
  expect(withMocks(plan, ['p'])).toMatchObject({ problems: [expect.stringContaining('stage p has no `mock`')] });
});

test('a `finally` stage of a part runs after all of the run, and with its condition', () => {
  const last = run('clean', ', finally: true, when: stages.s.state == "failed"');
  const plan = planIn({
    'spec.yaml': workflow([
      run('a', ', sandbox: { vcpus: 1 }'),
      'name: p, uses: ./p.yaml, depends_on: [a], when: stages.a.exit_code == 0',
      run('u', ', on_failure: [p]'),
      run('z', ', depends_on: [p]'),
    ]),
    'p.yaml': `grace_secs: 900\n${workflow([run('s'), 'name: q, uses: ./q.yaml', last])}`,
    'q.yaml': workflow([run('t'), run('tidy', ', finally: true')]),
  });
  expect(plan.graceMs).toBe(900_000);
  expect(stageOf(plan, 'p.clean')).toMatchObject({
    finally: true,
    after: [],
    scope: 'p.clean',
    input: { kind: 'none' },
    when: { stages: ['a', 'p.s'] },
  });
  expect(stageOf(plan, 'p.q.tidy')).toMatchObject({ finally: true, after: [], when: stageOf(plan, 'p').when });
  expect(stageOf(plan, 'p').after.map(({ stage }) => stage)).toEqual(['p.s', 'p.q', 'a']);
  expect(stageOf(plan, 'u').after.map(({ stage }) => stage)).toEqual(['p', 'p.s', 'p.q.t']);
  expect(partOf(stageOf(plan, 'p').work)!.stages).toContain('p.clean');
});

test('the grace of a spec and the limit of `finally` stages also hold for its parts', () => {
  const part = workflow([run('s'), run('clean', ', finally: true')]);
  const using = (count: number): readonly string[] => [
    run('a'),
    ...Array.from({ length: count }, (_, index) => `name: p${index}, uses: ./p.yaml`),
  ];
  expect(planIn({ 'spec.yaml': workflow(using(1)), 'p.yaml': part }).graceMs).toBe(300_000);
  expect(planIn({ 'spec.yaml': `grace_secs: 5\n${workflow(using(1))}`, 'p.yaml': part }).graceMs).toBe(5_000);
  expect(planIn({ 'spec.yaml': workflow(using(16)), 'p.yaml': part }).stages).toHaveLength(49);
  expect(compiled({ 'spec.yaml': workflow(using(17)), 'p.yaml': part }).diagnostics).toMatchObject([
    { message: '17 stages have `finally`, including stages of parts; at most 16 are allowed' },
  ]);
});

function stageOf(plan: Plan, id: string): Plan['stages'][number] {
  return plan.stages.find((stage) => stage.id === id)!;
}

describe('the condition of a stage in a part', () => {
  const conditionOf = (own: string | null, outer: string | null): Plan['stages'][number]['when'] => {
    const when = (source: string | null): string => (source === null ? '' : `, when: ${JSON.stringify(source)}`);
    const plan = planIn({
      'spec.yaml': workflow(
        [run('a'), `name: p, uses: ./p.yaml, depends_on: [a], with: { x: one }${when(outer)}`],
        'params: { x: zero }\n',
      ),
      'p.yaml': workflow([run('r'), run('a', `, depends_on: [r]${when(own)}`)], 'params: { x: null, "y.z": two }\n'),
    });
    return stageOf(plan, 'p.a').when;
  };
  const value = { state: 'succeeded', exitCode: 0, output: '"r"' } as never;
  const holds = (when: NonNullable<ReturnType<typeof conditionOf>>): unknown =>
    evaluateCondition(when.source, {
      stages: Object.fromEntries(when.stages.map((id) => [id, value])),
      params: when.params,
    } as never);

  test.each<[string, string]>([
    ['stages.r.output == ""', 'stages["p.r"].output == ""'],
    ['stages . r . output == ""', 'stages["p.r"] . output == ""'],
    ['stages["r"]["output"] == ""', 'stages["p.r"]["output"] == ""'],
    [
      'has(stages.r.json) && stages.r.json.?r.orValue(true)',
      'has(stages["p.r"].json) && stages["p.r"].json.?r.orValue(true)',
    ],
    [
      'params.x == "params.x" || stages.r.exit_code == 0',
      'params["p.x"] == "params.x" || stages["p.r"].exit_code == 0',
    ],
    ['params["y.z"] != params.x', 'params["p.y.z"] != params["p.x"]'],
    ['[1].exists(r, r == 1 && stages.r.output != "")', '[1].exists(r, r == 1 && stages["p.r"].output != "")'],
  ])('%s reads the same values after the rename', (own, renamed) => {
    expect(conditionOf(own, null)?.source).toBe(renamed);
  });

  test('and the condition of the part both hold, each with the parameters of its spec', () => {
    const when = conditionOf('params.x == "one" // of the part', 'params.x == "zero" // of the run')!;
    expect(when.params).toEqual({ x: 'zero', 'p.x': 'one' });
    expect(holds(when)).toEqual({ holds: true });
    expect(holds(conditionOf('params.x == "zero"', 'params.x == "zero"')!)).toEqual({ holds: false });
    expect(holds(conditionOf('params.x == "one"', 'params.x == "one"')!)).toEqual({ holds: false });
    expect(holds(conditionOf('false || true', 'true || false')!)).toEqual({ holds: true });
  });

  test("is known to hold only with the part's condition, and with no other", () => {
    const only = (source: string, params = {}) => ({ source, stages: [], params });
    const both = conditionOf('params.x == "one"', 'params.x == "zero"')!;
    expect(holdsOnlyWith(both, only('params.x == "zero"', { x: 'zero' }))).toBe(true);
    expect(holdsOnlyWith(both, both)).toBe(true);
    expect(holdsOnlyWith(both, only('params.x == "zero"', { x: 'other' }))).toBe(false);
    expect(holdsOnlyWith(both, only('params["p.x"] == "one"', { 'p.x': 'one' }))).toBe(false);
    expect(holdsOnlyWith(only('params.x == "zero"', { x: 'zero' }), both)).toBe(false);
    const deep = only('(a\n) && ((b\n) && (c\n)\n)');
    expect(holdsOnlyWith(deep, only('(a\n) && (b\n)'))).toBe(true);
    expect(holdsOnlyWith(deep, only('(a\n) && (c\n)'))).toBe(false);
  });
});

describe('parts', () => {
  const messages = (files: Readonly<Record<string, string>>): readonly string[] =>
    compiled(files).diagnostics.map(({ file, code, message }) => `${file} ${code} ${message}`);
  const using = (file: string): string => `name: p, uses: ./${file}`;
  const chain = (depth: number): Record<string, string> =>
    Object.fromEntries(
      Array.from({ length: depth + 1 }, (_, at) => [
        `${at}.yaml`,
        workflow([at === depth ? run('p') : using(`${at + 1}.yaml`)]),
      ]),
    );

  test('the depth of parts within parts is limited', () => {
    expect(planIn(chain(PLAN_LIMITS.partDepth)).stages[0]!.id).toBe('p.p.p.p.p');
    expect(messages(chain(PLAN_LIMITS.partDepth + 1))).toEqual([
      expect.stringContaining('nests parts 5 deep; at most 4 levels'),
    ]);
  });

  test('the number of files is limited', () => {
    const many = (count: number): Record<string, string> => ({
      'spec.yaml': workflow(Array.from({ length: count }, (_, at) => `name: p${at}, uses: ./${at}.yaml`)),
      ...Object.fromEntries(Array.from({ length: count }, (_, at) => [`${at}.yaml`, workflow([run('a')])])),
    });
    expect(messages(many(PLAN_LIMITS.partFiles))).toEqual([]);
    expect(messages(many(PLAN_LIMITS.partFiles + 1))).toEqual([expect.stringContaining('uses more than 64 files')]);
  });

  test('the number of stages is limited, also if files use each other many times', () => {
    const many = (count: number, step: (at: number) => string): string =>
      workflow(Array.from({ length: count }, (_, at) => step(at)));
    const files = {
      'spec.yaml': many(40, (at) => `name: p${at}, uses: ./b.yaml`),
      'b.yaml': many(1_000, (at) => `name: p${at}, uses: ./c.yaml`),
      'c.yaml': many(1_000, (at) => run(`s${at}`)),
    };
    const told = messages(files);
    expect(told.filter((each) => !each.includes('with which the run would have more than 2000 stages'))).toEqual([]);
    expect(told.length).toBeGreaterThan(0);
    const { 'c.yaml': small } = { 'c.yaml': many(998, (at) => run(`s${at}`)) };
    const fits = { 'spec.yaml': many(2, (at) => `name: p${at}, uses: ./c.yaml`), 'c.yaml': small };
    expect(planIn(fits).stages).toHaveLength(2_000 - 2);
  });

  test('the length of a condition is limited, together with the conditions around it', () => {
    const long = (length: number): string => `, when: '${'true || '.repeat(Math.floor(length / 8))}true'`;
    const files = (length: number): Record<string, string> => ({
      'spec.yaml': workflow([run('a'), `${using('p.yaml')}${long(length)}`]),
      'p.yaml': workflow([run('r'), run('s', long(length))]),
    });
    expect(messages(files(1_000))).toEqual([]);
    expect(messages(files(3_000))).toEqual([expect.stringContaining('"p.s" has a condition that is too long')]);
  });

  test('the length of an expression is limited, with its new names', () => {
    const files = (length: number): Record<string, string> => ({
      'spec.yaml': workflow([using('p.yaml')]),
      'p.yaml': workflow([
        `name: s, run: { program: echo, args: ['\${{ stages.r.output${' '.repeat(length)} + "x" }}'] }`,
        run('r'),
      ]),
    });
    const short = `stages.r.output + "x"`.length;
    const renamed = `stages["p.r"].output + "x"`.length;
    expect(messages(files(4_096 - renamed))).toEqual([]);
    expect(messages(files(4_096 - renamed + 1))).toEqual([
      expect.stringContaining('"p.s" has an expression in its texts that is too long once the part'),
    ]);
    expect(messages(files(4_096 - short + 1))).toEqual([expect.stringContaining('spec/bad-expression')]);
  });

  test('a spec that comes as text uses no files, and a path cannot climb above the root', () => {
    const text = workflow([run('a'), using('p.yaml')]);
    const alone = compileText(text, 'x.yaml', { baseDir: '/specs' });
    expect(alone.diagnostics).toMatchObject([{ code: 'spec/bad-part', message: expect.stringContaining('as text') }]);
    expect(messages({ 'x.yaml': workflow([run('a'), 'name: p, uses: ../../etc/passwd']) })).toEqual([
      expect.stringContaining('is neither a path of a spec nor a part'),
    ]);
    expect(messages({ 'x.yaml': workflow([run('a'), 'name: p, uses: ../../../p.yaml']) })).toEqual([
      expect.stringContaining('is neither a path of a spec nor a part'),
    ]);
  });
});

test('the warning about an unused `llm` names the agent of a part, which does not use the `llm` of the spec', () => {
  const llm = 'llm: { provider: claude, model: opus }\n';
  const warningsOf = (files: Readonly<Record<string, string>>): readonly string[] =>
    compiled(files).diagnostics.map(({ message }) => message);
  const asks = workflow(['name: ask, prompt: Review.']);
  const uses = workflow(['name: fix, uses: ./asks.yaml'], llm);
  const inFile = `parts: { asks: { workflow: { steps: [{ name: ask, prompt: Review. }] } } }\n`;
  const message =
    '`llm` has no effect: the agent fix.ask is in a part, which does not inherit `llm` from the spec that uses it';
  expect(warningsOf({ 'uses.yaml': uses, 'asks.yaml': asks })).toEqual([message]);
  expect(warningsOf({ 'uses.yaml': workflow(['name: fix, uses: asks'], llm + inFile) })).toEqual([message]);
  expect(warningsOf({ 'none.yaml': workflow([run('a')], llm) })).toEqual(['`llm` has no effect: no stage is an agent']);
  expect(
    warningsOf({ 'own.yaml': workflow(['name: fix, uses: asks', 'name: own, prompt: Review.'], llm + inFile) }),
  ).toEqual([]);
});
