/** Tests what admission decides for a run, and what it returns to the workflow. */
import { Buffer } from 'node:buffer';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { machineFromWire, machinePlanOf } from '../../domain/pipeline/machine-plan.ts';
import { type DataRef, type Plan, PLAN_LIMITS } from '../../domain/plan/plan.ts';
import { SANDBOX_DEFAULTS } from '../../domain/plan/defaults.ts';
import { type PlanWire, toWire } from '../../domain/plan/wire.ts';
import type { RunEvent, RunEventBody } from '../../domain/run/event.ts';
import { BEHAVIOUR } from '../../domain/run/behaviour.ts';
import { requestOf } from '../../test/rig/runs/admissions.ts';
import { checkPlan } from '../../domain/language/check-plan.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import { openStores } from '../../store/open-stores.ts';
import { planOf } from '../../test/machine/plan-of.ts';
import { mockWorkerDeps } from '../../test/rig/runs/mock-worker.ts';
import { admit } from './admit.ts';
import type { AdmissionRecord } from './admission-record.ts';
import type { Admission, AdmitRequest, RunRequest } from '../contract.ts';
import type { ActivityDeps } from '../deps.ts';
import { AgentSkillUnavailable } from '../ports/remote-skills.ts';
import type { StageSessions } from '../ports/stage-sessions.ts';

const RUN = 'run-1';
const PLAN = planOf('a b>a!', { shared: 'a b' });

let stateDir: string;
let deps: ActivityDeps;

beforeEach(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-admit-'));
  deps = mockWorkerDeps(
    { stateDir, stores: await openStores({ stateDir }), backend: createMockBackend() },
    { checkPlan },
  );
});

afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

function admitted(request: RunRequest & Partial<AdmitRequest>, runId = RUN): Promise<Admission> {
  const info = { workflowExecution: { workflowId: runId, runId: 'execution-1' } };
  const environment = new MockActivityEnvironment(info, { logger: new DefaultLogger('ERROR', () => undefined) });
  return environment.run<[ActivityDeps, AdmitRequest], Admission, typeof admit>(admit, deps, requestOf(runId, request));
}

async function stored(text: string): Promise<DataRef> {
  async function* once(): AsyncIterable<Uint8Array> {
    yield Buffer.from(text);
  }
  return deps.artifacts.put(once(), 'application/json');
}

/** Another call of the same activity, as the server makes one when it has heard nothing of the first. */
function admittedAt(hostId: string, executionId: string, name: string): Promise<Admission> {
  const info = { workflowExecution: { workflowId: RUN, runId: executionId } };
  const environment = new MockActivityEnvironment(info, { logger: new DefaultLogger('ERROR', () => undefined) });
  const placement = { hostId, hostQueue: `voidbox-host:${hostId}` };
  const request = requestOf(RUN, { plan: toWire({ ...PLAN, name }) });
  return environment.run<[ActivityDeps, AdmitRequest], Admission, typeof admit>(admit, { ...deps, placement }, request);
}

describe('two admissions of a run at once', () => {
  test('result in one admission: the call that loses returns the admission of the other', async () => {
    const [one, other] = await Promise.all([
      admittedAt('h1', 'execution-1', 'one'),
      admittedAt('h2', 'execution-1', 'other'),
    ]);
    expect(one).toEqual(other);
    const admission = (await deps.records.get(RUN, 'admission')) as AdmissionRecord;
    expect(one).toMatchObject({ hostId: admission.hostId });
    expect(await deps.records.get(RUN, 'plan')).toEqual(admission.plan);
    expect(await eventsOf(RUN)).toMatchObject([
      { body: { type: 'run-admitted', hostId: admission.hostId, name: admission.plan.name } },
    ]);
  });

  test('admit one of two executions, and the other fails because the id is taken', async () => {
    const results = await Promise.allSettled([
      admittedAt('h1', 'execution-1', 'one'),
      admittedAt('h2', 'execution-2', 'other'),
    ]);
    expect(results.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
    expect(results.find(({ status }) => status === 'rejected')).toMatchObject({ reason: { type: 'run/id-taken' } });
    expect((await eventsOf(RUN)).map(({ body }) => body.type)).toEqual(['run-admitted']);
  });

  test('leave the run to the call that admits it, if the other refuses it', async () => {
    const value = { kind: 'from-host', fromHost: 'TOKEN' } as const;
    const reading = {
      ...PLAN,
      hostVariables: ['TOKEN'],
      stages: PLAN.stages.map((stage) => ({ ...stage, work: { ...stage.work, env: [{ name: 'TOKEN', value }] } })),
    } as Plan;
    const lending = { ...deps, lentVariables: { read: () => Promise.resolve({ TOKEN: 'lent' }) } };
    let isAdmitted = false;
    const read = async (): Promise<Record<string, string>> => {
      deps = lending;
      if (!isAdmitted) await admitted({ plan: toWire(reading) });
      isAdmitted = true;
      return {};
    };
    deps = { ...deps, lentVariables: { read } };
    await expect(admitted({ plan: toWire(reading) })).rejects.toMatchObject({ type: 'host/variable-missing' });
    expect(isAdmitted).toBe(true);
    expect((await eventsOf(RUN)).map(({ body }) => body.type)).toEqual(['run-admitted']);
    expect(await deps.records.get(RUN, 'refusal')).toBeNull();
  });
});

async function eventsOf(runId: string): Promise<readonly RunEvent[]> {
  const events: RunEvent[] = [];
  for await (const event of deps.reader.read(runId, 0)) events.push(event);
  return events;
}

const large = (bytes: number): Plan => ({
  ...PLAN,
  stages: PLAN.stages.map((stage) => ({ ...stage, work: { ...stage.work, args: ['x'.repeat(bytes / 2)] } })),
});

describe('variables of the host', () => {
  const reading = (ifUnset: object): Plan => {
    const value = { kind: 'from-host', fromHost: 'TOKEN', ...ifUnset } as const;
    return {
      ...PLAN,
      hostVariables: ['TOKEN'],
      stages: PLAN.stages.map((stage) => ({ ...stage, work: { ...stage.work, env: [{ name: 'TOKEN', value }] } })),
    } as Plan;
  };

  test('must be set before the run starts if a stage requires them', async () => {
    await expect(admitted({ plan: toWire(reading({})) })).rejects.toMatchObject({
      type: 'host/variable-missing',
      nonRetryable: true,
      message: expect.stringContaining('stage a reads the variable TOKEN') as string,
    });
  });

  test('may be handed over, or lent by this worker', async () => {
    const lending = { ...deps, lentVariables: { read: () => Promise.resolve({ TOKEN: 'lent' }) } };
    const handed = deps;
    deps = lending;
    await expect(admitted({ plan: toWire(reading({})) })).resolves.toBeTruthy();
    deps = handed;
    await deps.hostVariables.put('run-2', { TOKEN: 'handed over' });
    await expect(admitted({ plan: toWire(reading({})) }, 'run-2')).resolves.toBeTruthy();
  });

  test('are not required if they may be unset', async () => {
    await expect(admitted({ plan: toWire(reading({ ifUnset: 'empty' })) })).resolves.toBeTruthy();
  });
});

describe('a skill `remote:`', () => {
  const skills = [{ kind: 'remote', repository: 'a/b', skill: 'think' }];
  const work = {
    kind: 'agent',
    prompt: 'x',
    skills,
    env: [{ name: 'ANTHROPIC_API_KEY', value: { kind: 'literal', text: 'x' } }],
  };
  const sandbox = { ...SANDBOX_DEFAULTS, memoryMib: 1_024 };
  const asking = {
    ...toWire(PLAN),
    stages: toWire(PLAN).stages.map((stage) => ({ ...stage, work })),
    scopes: toWire(PLAN).scopes.map((scope) => ({ ...scope, sandbox })),
  } as unknown as PlanWire;

  test('is fetched once, and the record has its text and the log its hash; a second admission fetches nothing', async () => {
    let times = 0;
    deps = { ...deps, fetchSkill: () => ((times += 1), Promise.resolve(Buffer.from('Think first.'))) };
    const first = await admitted({ plan: asking });
    const record = JSON.stringify(await deps.records.get(RUN, 'admission'));
    expect(record).toContain('{"kind":"inline","name":"think","content":"Think first."}');
    expect(record).not.toContain('"kind":"remote"');
    expect(await admitted({ plan: asking })).toEqual(first);
    expect(times).toBe(1);
    const told = await deps.events.find(RUN, 'run/skill-fetched/remote:a/b/think');
    expect(told?.body).toMatchObject({ type: 'notice', message: expect.stringContaining('sha256') as string });
  });

  test('fails the run permanently if it cannot be fetched', async () => {
    deps = { ...deps, fetchSkill: () => Promise.reject(new AgentSkillUnavailable('https://x: status 404')) };
    await expect(admitted({ plan: asking })).rejects.toMatchObject({
      type: 'admit/skill-unavailable',
      nonRetryable: true,
      message: expect.stringContaining(
        'remote:a/b/think of stage a cannot be fetched: https://x: status 404',
      ) as string,
    });
  });
});

describe('the code of a step machine', () => {
  const CODE = { skill: 'release', version: '1.0.0', codeHash: 'a'.repeat(64) };
  const machine = (change: object = {}): ReturnType<typeof toWire> => {
    const work = { kind: 'skill', source: { kind: 'host', path: '/home/ada/skill' }, ...change };
    const wire = toWire(PLAN);
    const stages = wire.stages.map((stage) => ({ ...stage, work }));
    return { ...wire, stages } as unknown as ReturnType<typeof toWire>;
  };
  const identify = (path: string) => {
    if (path === '/home/ada/skill') return Promise.resolve(CODE);
    return Promise.reject(new CodedError('skill/unknown', `the skill ${path} is not among those of this worker`));
  };
  const sessions = { identify } as unknown as StageSessions;

  test('is the code that the worker has at the path, whatever the plan claims', async () => {
    deps = { ...deps, stageSessions: sessions };
    const plan = machine({ code: { ...CODE, codeHash: 'b'.repeat(64) } });
    await admitted({ plan, mockAgents: true });
    const kept = (await deps.records.get(RUN, 'plan')) as ReturnType<typeof toWire>;
    expect(kept.stages.map(({ work }) => (work as { readonly code?: unknown }).code)).toEqual(
      kept.stages.map(() => CODE),
    );
  });

  test('is missing if the worker has no skills, or only another skill', async () => {
    const failure = { type: 'skill/unknown', nonRetryable: true };
    const plan = machine();
    await expect(admitted({ plan, mockAgents: true })).rejects.toMatchObject({
      ...failure,
      message: 'stage a runs the step machine /home/ada/skill, and this worker has no step machines',
    });
    deps = { ...deps, stageSessions: sessions };
    const other = machine({ source: { kind: 'host', path: '/etc/other' } });
    await expect(admitted({ plan: other, mockAgents: true }, 'run-2')).rejects.toMatchObject({
      ...failure,
      message: 'stage a: the skill /etc/other is not among those of this worker',
    });
  });
});

describe('what this build cannot carry out', () => {
  interface Loose {
    readonly stages: Record<string, Record<string, unknown>>[];
    readonly scopes: Record<string, unknown>[];
  }
  const changed = (change: (plan: Loose) => void): unknown => {
    const plan = JSON.parse(JSON.stringify(toWire(PLAN))) as Loose;
    change(plan);
    return plan;
  };

  test.each<[string, (plan: Loose) => void, string]>([
    ['an agent', ({ stages }) => (stages[1]!['work'] = { kind: 'agent', prompt: 'x' }), 'stage b is an agent'],
    ['a terminal', ({ stages }) => (stages[1]!['work'] = { kind: 'shell' }), 'stage b is a VM for a terminal'],
    [
      'an agent with a terminal',
      ({ stages }) => (stages[1]!['work'] = { kind: 'agent', mode: 'interactive', prompt: 'x' }),
      'stage b is an agent with `mode: interactive`',
    ],
    [
      'the network',
      ({ scopes }) => (scopes[0]!['sandbox'] = { needs: { network: true } }),
      'stage a needs the network',
    ],
    [
      'an image',
      ({ scopes }) => (scopes[0]!['sandbox'] = { needs: { image: 'x', kernel: '/y' } }),
      'stage a has the image "x", which only `voidbox run` reads: it puts the hash of a disk into the plan; stage a needs the `kernel` "/y"',
    ],
  ])('%s of a plan that any client sends is refused before anything starts', async (_what, change, message) => {
    await expect(admitted({ plan: changed(change) as ReturnType<typeof toWire> })).rejects.toMatchObject({
      type: 'admit/unsupported-work',
      nonRetryable: true,
      message: expect.stringContaining(message) as string,
    });
    expect(await deps.records.get(RUN, 'plan')).toBeFalsy();
  });

  test('does not include the simulation, which has no VM', async () => {
    const plan = changed(({ scopes }) => {
      scopes[0]!['sandbox'] = { mode: 'mock', isolation: 'none', needs: { image: 'x', network: true } };
    });
    await expect(admitted({ plan: plan as ReturnType<typeof toWire> })).resolves.toBeTruthy();
  });
});

describe('what the workflow is given', () => {
  test('is the part of the plan that its machine needs; the plan stays in the records', async () => {
    const admission = await admitted({ plan: toWire(PLAN) });
    expect(admission).toMatchObject({ behaviour: BEHAVIOUR });
    expect(Object.keys(admission)).not.toContain('plan');
    expect(machineFromWire(admission.machine)).toEqual(machinePlanOf(PLAN));
    expect(await deps.records.get(RUN, 'admission')).toMatchObject({
      plan: JSON.parse(JSON.stringify(toWire(PLAN))) as object,
    });
  });

  test('names the older of the behaviours of workflow and worker', async () => {
    expect(await admitted({ plan: toWire(PLAN), behaviour: BEHAVIOUR + 1 })).toMatchObject({ behaviour: BEHAVIOUR });
  });

  test.each([[undefined], [0], [1.5], ['1']])('is refused to a workflow of behaviour %j', async (behaviour) => {
    await expect(admitted({ plan: toWire(PLAN), behaviour: behaviour as number })).rejects.toMatchObject({
      type: 'admit/invalid',
      message: expect.stringContaining('as its behaviour') as string,
    });
  });

  test.each([true, false])('fixes for the run whether its boots are recorded: %j', async (recordsBoots) => {
    expect(await admitted({ plan: toWire(PLAN), recordsBoots })).toMatchObject({ recordsBoots });
    expect(await admitted({ plan: toWire(PLAN), recordsBoots: !recordsBoots })).toMatchObject({ recordsBoots });
  });

  test('is the same if admission is called again', async () => {
    const first = await admitted({ plan: toWire(PLAN) });
    expect(await admitted({ plan: toWire(PLAN) })).toEqual(first);
  });

  test('names the host and the queues of the run', async () => {
    const placement = { hostId: 'a', hostQueue: 'qa', storeQueue: 'stores', leaseQueue: 'leases' };
    deps = { ...deps, placement };
    expect(await admitted({ plan: toWire(PLAN) })).toMatchObject(placement);
  });

  test('names the first host also if that host died after its record and another host answers', async () => {
    const placement = { hostId: 'a', hostQueue: 'qa', leaseQueue: 'leases' };
    const { events } = deps;
    deps = { ...deps, placement, events: { ...events, append: () => Promise.reject(new Error('killed')) } };
    await expect(admitted({ plan: toWire(PLAN) })).rejects.toThrow('killed');
    deps = { ...deps, placement: { hostId: 'b', hostQueue: 'qb' }, events };
    expect(await admitted({ plan: toWire(PLAN) })).toMatchObject(placement);
    expect((await deps.events.find(RUN, 'run/admitted'))?.body).toMatchObject({ hostId: 'a' });
  });

  test('names only the queues that the worker sets', async () => {
    const admission = await admitted({ plan: toWire(PLAN) });
    expect(admission).toMatchObject({ hostId: 'h', hostQueue: 'voidbox-host:h' });
    expect(Object.keys(admission)).not.toContain('storeQueue');
  });
});

describe('a plan in the artifact store', () => {
  test('is admitted by its hash, however large it is', async () => {
    const planRef = await stored(JSON.stringify(toWire(large(4 * 1024 * 1024))));
    expect(JSON.stringify(await admitted({ planRef })).length).toBeLessThan(4_096);
  });

  test('is not read beyond the size limit of plans', async () => {
    const planRef = await stored(' '.repeat(PLAN_LIMITS.planBytes + 1));
    await expect(admitted({ planRef })).rejects.toMatchObject({ type: 'run/too-large' });
  });

  test('is refused without quoting its content if it is not a plan', async () => {
    const planRef = await stored('secret words');
    await expect(admitted({ planRef })).rejects.toMatchObject({
      type: 'admit/invalid',
      message: `the plan ${planRef.sha256} is not JSON`,
    });
  });

  test.each<[string, object]>([
    [
      'beside a plan',
      { plan: toWire(PLAN), planRef: { sha256: 'a'.repeat(64), sizeBytes: 1, mediaType: 'application/json' } },
    ],
    ['that is a path', { planRef: { sha256: '../plan', sizeBytes: 1, mediaType: 'application/json' } }],
    ['that is a text', { planRef: 'plan' }],
  ])('%s is refused', async (_what, request) => {
    await expect(admitted({ ...request })).rejects.toMatchObject({ type: 'admit/invalid' });
  });
});

test('a plan with more edges than a workflow holds is refused, even if its text is small enough', async () => {
  const names = Array.from({ length: 1_100 }, (_, index) => `s${index}`);
  const plan = planOf(
    names.map((name, index) => (index === 0 ? name : `${name}>${names.slice(0, index).join(',')}`)).join(' '),
  );
  deps = { ...deps, checkPlan: () => ({ plan }) };
  await expect(admitted({ plan: toWire(PLAN) })).rejects.toThrow(/names and edges of the plan's stages/);
});

test('a refusal that another build recorded is thrown again with its own code, and is final', async () => {
  const refused = admitted({ planRef: await stored('not JSON') });
  await expect(refused).rejects.toMatchObject({ type: 'admit/invalid' });
  await deps.records.put(RUN, 'refusal', { executionId: 'execution-1', code: 'admit/retired', message: 'no more' });
  await expect(admitted({})).rejects.toMatchObject({
    type: 'admit/retired',
    message: 'no more',
    nonRetryable: true,
  });
});

describe('a plan that waits', () => {
  const waiting = (untilMs: number): Plan => {
    const [first] = PLAN.stages;
    const stage = {
      ...first!,
      id: 'pause',
      scope: null,
      after: [],
      work: { kind: 'wait', forMs: null, untilMs },
    } as const;
    return { ...PLAN, stages: [...PLAN.stages, stage] };
  };
  const DAYS = 24 * 3_600_000;

  test('may wait for 400 days', async () => {
    expect(await admitted({ plan: toWire(waiting(deps.now() + 400 * DAYS)) })).toMatchObject({
      hostId: 'h',
    });
  });

  test('is refused if it would wait longer', async () => {
    await expect(admitted({ plan: toWire(waiting(deps.now() + 401 * DAYS)) })).rejects.toMatchObject({
      type: 'admit/invalid',
      message: expect.stringContaining('more than 400 days from now'),
    });
  });
});

describe('agents', () => {
  const agents = (extra: object = {}): Plan => ({
    ...PLAN,
    stages: PLAN.stages.map((stage) => ({
      ...stage,
      work: {
        kind: 'agent',
        mode: 'task',
        prompt: 'Review.',
        llm: null,
        skills: [],
        env: [],
        messaging: false,
        ...extra,
      } as const,
    })),
  });

  test('are played if the request sets it, and again in a retry of the run', async () => {
    await admitted({ plan: toWire(agents()), mockAgents: true });
    const first = await deps.events.find(RUN, 'run/admitted');
    expect(first?.body).toMatchObject({ type: 'run-admitted', mockAgents: ['a', 'b'] });
    const outcome = { state: 'failed', failedStage: null, failure: null, output: null } as const;
    await deps.events.append(RUN, [{ id: 'run/finished', atMs: 1, body: { type: 'run-finished', outcome } }]);
    const origin = { runId: RUN, kind: 'retry', from: null } as const;
    const limited = { ...((await deps.records.get(RUN, 'plan')) as Plan), timeoutMs: 7_000 };
    for (const [runId, request] of [
      ['again', { origin }],
      ['limited', { origin, behaviour: BEHAVIOUR, plan: limited }],
    ] as const) {
      await admitted(request, runId);
      const { body } = (await deps.events.find(runId, 'run/admitted'))!;
      expect(body).toMatchObject({ type: 'run-admitted', mockAgents: ['a', 'b'] });
    }
  });

  test('are refused without it if their VM cannot run the command line', async () => {
    const scopes = PLAN.scopes.map((scope) => ({ ...scope, sandbox: { ...SANDBOX_DEFAULTS, memoryMib: 128 } }));
    await expect(admitted({ plan: toWire({ ...agents(), scopes }) })).rejects.toMatchObject({
      type: 'admit/unsupported-work',
      message: expect.stringContaining('stage a is an agent for whose command line 128 MiB are too little'),
    });
  });

  test('need their key if they are not played, even if the plan does not name it', async () => {
    const scopes = PLAN.scopes.map((scope) => ({ ...scope, sandbox: { ...SANDBOX_DEFAULTS, memoryMib: 1_024 } }));
    await expect(admitted({ plan: toWire({ ...agents(), scopes }) })).rejects.toMatchObject({
      type: 'host/variable-missing',
      message: expect.stringContaining('stage a reads the variable ANTHROPIC_API_KEY'),
    });
  });

  test('a plan that itself declares that they are played is refused', async () => {
    await expect(admitted({ plan: toWire(agents({ played: true })), mockAgents: true })).rejects.toMatchObject({
      type: 'admit/invalid',
      message: expect.stringContaining('itself uses the mock agent for stage a'),
    });
  });

  test('a request to play agents is refused if the plan has no agents or the value is not a boolean', async () => {
    await expect(admitted({ plan: toWire(PLAN), mockAgents: true })).rejects.toMatchObject({
      message: expect.stringContaining('`mockAgents` has no effect: no stage has an agent'),
    });
    await expect(
      admitted({ plan: toWire(agents()), mockAgents: 'yes' as unknown as boolean }, 'run-2'),
    ).rejects.toMatchObject({
      type: 'admit/invalid',
      message: expect.stringContaining('must be true or false'),
    });
  });
});

test('a refused value of a parameter is quoted with its beginning only', async () => {
  const params = { ['n'.repeat(450_000)]: { b: 'x'.repeat(450_000) } } as never;
  const refused: unknown = await admitted({ spec: 'kind: workflow', params }).catch((error: unknown) => error);
  expect(refused).toMatchObject({ type: 'admit/invalid' });
  expect((refused as Error).message).toBe(
    `the param ${'n'.repeat(79)}… must be a string, it is {"b":"${'x'.repeat(73)}…`,
  );
});

test.each<[string, unknown, number | undefined]>([
  ['a start in the past', 1_700_000_000_000, 1_700_000_000_000],
  ['a start in the future', 99_999_999_999_999, undefined],
  ['a text', '2026-01-01', undefined],
  ['half a millisecond', 0.5, undefined],
  ['no start', undefined, undefined],
])(
  'the event of an admission has the start of its workflow only if it is one: %s',
  async (_what, startedAtMs, kept) => {
    await admitted({ plan: toWire(PLAN), startedAtMs } as never);
    const bodies: RunEventBody[] = [];
    for await (const { body } of deps.reader.read(RUN, 0)) bodies.push(body);
    expect(bodies[0]).toMatchObject({ type: 'run-admitted' });
    expect((bodies[0] as { readonly startedAtMs?: number }).startedAtMs).toBe(kept);
  },
);

const CONFINED = [
  { kind: 'token', name: 'ci', allowGit: [] },
  {
    kind: 'deployment',
    name: 'review',
    version: 3,
    delivery: 'd-1',
    traceparent: '00-1-2-01',
    cloudEvent: { source: '/s', id: 'e-1' },
    allow: [],
    allowGit: [],
  },
] as const;

describe.each(CONFINED)('a run of a $kind', (confined) => {
  const sandboxOf = (change: Partial<Plan['scopes'][number]['sandbox']>): Plan => ({
    ...PLAN,
    scopes: PLAN.scopes.map((scope) => ({ ...scope, sandbox: { ...scope.sandbox, ...change } })),
  });
  const mount = (path: string, mode: 'ro' | 'rw'): Plan =>
    sandboxOf({ mounts: [{ source: { kind: 'host', path }, guestPath: '/data', mode }] });
  const services = [{ name: 'db', host: '127.0.0.1', port: 5432 }];

  beforeEach(() => {
    const starter = { ...confined, baseDir: stateDir };
    deps = {
      ...deps,
      starters: { starterOf: () => Promise.resolve(starter) },
      mountPolicy: { allowedRoots: ['/etc'], allowedGit: ['example.com/app'] },
      servicePolicy: 'any',
      prepared: { find: () => Promise.resolve({ dir: '/prepared/of-the-owner' }) } as never,
    };
  });

  test('is admitted with a folder of its files, and a delivery is named', async () => {
    const admission = await admitted({ plan: toWire(mount(stateDir, 'ro')) });
    const bodies: RunEventBody[] = [];
    for await (const { body } of deps.reader.read(RUN, 0)) bodies.push(body);
    const ids = { traceparent: '00-1-2-01', cloudEvent: { source: '/s', id: 'e-1' } };
    const named = { deployment: 'review', version: 3, delivery: 'd-1', ...ids };
    expect(admission.deployment).toBe(confined.kind === 'deployment' ? 'review' : undefined);
    expect((bodies[0] as { readonly trigger?: unknown }).trigger).toEqual(
      confined.kind === 'deployment' ? named : undefined,
    );
    expect(((await deps.records.get(RUN, 'admission')) as AdmissionRecord).mounts).toEqual({ [stateDir]: stateDir });
  });

  test.each([
    ['a folder that the worker allows', () => mount('/etc', 'ro'), 'admit/mount-refused'],
    ['a writable upload', () => mount(stateDir, 'rw'), 'admit/mount-refused'],
    ['a sandbox that the owner prepared', () => sandboxOf({ prepared: 'of-the-owner' }), 'admit/snapshot-unknown'],
    ['a service of the host', () => sandboxOf({ egress: { allow: [], deny: [], services } }), 'admit/service-refused'],
  ])('is refused with %s', async (_what, make, code) => {
    await expect(admitted({ plan: toWire(make()) })).rejects.toMatchObject({ type: code });
  });
});
