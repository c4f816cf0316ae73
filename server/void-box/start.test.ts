/** Starts and cancels of clients of Void-Box, up to the start of the workflow. */
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { createToken } from '../../app/access/tokens.ts';
import type { RunState } from '../../app/void-box/run-state.ts';
import { fromWire, type PlanWire } from '../../domain/plan/wire.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import type { VoidBoxEvent } from '../../domain/void-box/event.ts';
import type { AccessStore } from '../../store/access.ts';
import { createMemoryAccess } from '../../test/rig/access/memory-access.ts';
import {
  admit,
  begin,
  finish,
  leaveStarted,
  listEvents,
  openVoidBoxService,
  SPEC,
  type VoidBoxService,
} from '../../test/rig/runs/void-box-service.ts';

const TCP = { connection: { listener: 'tcp', address: '192.0.2.7', end: () => undefined } } as const;
const WAIT = { timeout: 20_000 };

let service: VoidBoxService;
beforeEach(() => {
  service = openVoidBoxService();
});
afterEach(() => service.close());

async function start(body: object): Promise<unknown> {
  const response = await service.request('POST', '/v1/runs', body);
  return { status: response.status, ...((await response.json()) as object) };
}

async function readEnd(runId: string): Promise<RunState> {
  return await vi.waitFor(async () => {
    const run = await service.get<RunState>(`/v1/runs/${runId}`);
    expect(['succeeded', 'failed', 'cancelled']).toContain(run.status);
    return run;
  }, WAIT);
}

async function readPlan(runId: string): Promise<Plan> {
  return await vi.waitFor(() => {
    const found = service.started.find(({ workflowId }) => workflowId === runId);
    return fromWire(found!.args[0].plan as PlanWire);
  }, WAIT);
}

describe('a start', () => {
  test('answers at once, and starts the spec with its input in the folder of the spec', async () => {
    const file = service.writeSpec('shop.yaml');
    expect(await start({ file, input: 'hi', run_id: 'shop-1' })).toEqual({
      status: 200,
      run_id: 'shop-1',
      attempt_id: 1,
      state: 'running',
    });
    expect((await readPlan('shop-1')).name).toBe('shop');
    expect(service.started[0]!.args[0].input).toEqual({ kind: 'inline', text: 'hi' });
    expect(await service.stores.records.get('shop-1', 'void-box')).toMatchObject({ file, policy: null });
  });

  test('has an id without a request for one, and no two starts have the same', async () => {
    const file = service.writeSpec('shop.yaml');
    const ids = await Promise.all(
      Array.from({ length: 5 }, async () => ((await start({ file })) as { run_id: string }).run_id),
    );
    expect(new Set(ids).size).toBe(5);
    await vi.waitFor(
      () => expect(service.started.map(({ workflowId }) => workflowId).toSorted()).toEqual(ids.toSorted()),
      WAIT,
    );
  });

  test('reads a spec in JSON, and needs no type of its body', async () => {
    const step = { name: 'a', run: { program: 'ls' } };
    const spec = {
      kind: 'workflow',
      name: 'shop',
      sandbox: { mode: 'mock', isolation: 'none' },
      workflow: { steps: [step] },
    };
    const file = service.writeSpec('shop.json', JSON.stringify(spec));
    const response = await service.request(
      'POST',
      '/v1/runs',
      { file, run_id: 'r' },
      { headers: { 'content-type': 'text/plain' } },
    );
    expect(response.status).toBe(200);
    expect((await readPlan('r')).stages[0]?.id).toBe('a');
  });

  test('applies each field of a policy', async () => {
    const file = service.writeSpec(
      'shop.yaml',
      `${SPEC.replace('workflow: { steps: [', 'workflow: { steps: [{ name: z, run: ls, finally: true }, ')}`,
    );
    const policy = {
      max_parallel_microvms_per_run: 2,
      max_stage_retries: 5,
      stage_timeout_secs: 600,
      cancel_grace_period_secs: 10,
    };
    await start({ file, run_id: 'r', policy });
    const plan = await readPlan('r');
    expect([plan.maxParallel, plan.graceMs]).toEqual([2, 10_000]);
    expect(plan.stages.find(({ id }) => id === 'a')).toMatchObject({ timeoutMs: 600_000, retry: { maxAttempts: 6 } });
    expect(await service.get('/v1/runs/r')).toMatchObject({ policy });
  });

  test('gets only the variables of its request', async () => {
    const file = service.writeSpec('shop.yaml', SPEC.replace('run: ls', 'run: ls, secrets: [SECRET_OF_THE_SERVICE]'));
    await start({ file, run_id: 'r' });
    expect(await readEnd('r')).toMatchObject({ status: 'failed', terminal_reason: 'host/variable-missing' });
    await start({ file, run_id: 's', variables: { SECRET_OF_THE_SERVICE: 'mine' } });
    await readPlan('s');
    expect(JSON.stringify(service.started)).not.toContain('mine');
    expect(await service.stores.hostVariables.get('s')).toEqual({ SECRET_OF_THE_SERVICE: 'mine' });
  });

  test.each([
    ['a missing file', () => '/nowhere/spec.yaml', 'failed to read /nowhere/spec.yaml'],
    ['a relative path', () => 'spec.yaml', 'is not an absolute path'],
    ['a folder', () => service.dir, 'it is a folder and no file'],
    [
      'a spec with mistakes',
      () => service.writeSpec('x.yaml', 'kind: workflow\nname: a\nworkflow: { steps: [] }\n'),
      'the spec has a mistake',
    ],
    ['no YAML', () => service.writeSpec('x.yaml', ': : :'), 'the spec has'],
  ])('with %s is a run that has failed', async (_what, fileOf, message) => {
    expect(await start({ file: fileOf(), run_id: 'r' })).toMatchObject({ status: 200, state: 'running' });
    const run = await readEnd('r');
    expect(run).toMatchObject({ status: 'failed', error: expect.stringContaining(message), report: null });
    expect(run.artifact_publication.status).toBe('not_started');
    const events = await service.get<readonly VoidBoxEvent[]>('/v1/runs/r/events');
    expect(events.map(({ event_type: type }) => type)).toEqual(['run.started', 'spec.parse_failed', 'run.failed']);
    expect(run.terminal_event_id).toBe(events.at(-1)?.event_id);
  });

  test('without a server fails with the reason', async () => {
    service.close();
    service = openVoidBoxService({ server: 'none' });
    const file = service.writeSpec('shop.yaml');
    await start({ file, run_id: 'r' });
    expect(await readEnd('r')).toMatchObject({ terminal_reason: 'cli/no-server' });
  });
});

describe('an id', () => {
  test('that an active run has returns that run, and starts no other', async () => {
    const file = service.writeSpec('shop.yaml');
    const answers = await Promise.all([start({ file, run_id: 'r' }), start({ file, run_id: 'r' })]);
    expect(answers.map((answer) => (answer as { status: number }).status)).toEqual([200, 200]);
    await readPlan('r');
    expect(await start({ file, run_id: 'r' })).toMatchObject({ status: 200, run_id: 'r', state: 'starting' });
    await service.stores.events.append('r', listEvents(admit('workflow', 'a')));
    expect(await start({ file: 'another', run_id: 'r' })).toMatchObject({ status: 200, state: 'running' });
    expect(service.started).toHaveLength(1);
  });

  test('that two requests name at once starts one run, whatever the store does in between', async () => {
    service.close();
    service = openVoidBoxService({
      stores: (stores) => ({
        ...stores,
        records: {
          ...stores.records,
          async create(runId, name, value) {
            const isCreated = await stores.records.create(runId, name, value);
            // The other request goes first from here.
            for (let turns = 0; isCreated && turns < 50; turns += 1) await nextTurn();
            return isCreated;
          },
        },
      }),
    });
    const put = vi.spyOn(service.stores.records, 'put');
    const file = service.writeSpec('shop.yaml');
    await Promise.all([start({ file, run_id: 'r' }), start({ file, run_id: 'r' })]);
    await readPlan('r');
    expect(put.mock.calls.filter(([, name]) => name === 'void-box')).toEqual([]);
    expect(service.started).toHaveLength(1);
  });

  test('that a run of another client has leaves that run as it is', async () => {
    service.started.push({ workflowId: 'taken', args: [{} as never] });
    await start({ file: service.writeSpec('shop.yaml'), run_id: 'taken' });
    await vi.waitFor(async () => expect(await service.stores.records.get('taken', 'void-box')).toBeNull(), WAIT);
    expect(await service.stores.index.has('taken')).toBe(false);
    expect(service.started).toHaveLength(1);
  });

  test('that an ended run has is refused', async () => {
    await start({ file: '/none', run_id: 'r' });
    await readEnd('r');
    expect(await start({ file: '/none', run_id: 'r' })).toMatchObject({ status: 409, code: 'ALREADY_TERMINAL' });
  });

  test('that a lost run has starts it', async () => {
    await leaveStarted(service.stores, 'r');
    expect(await service.get('/v1/runs/r')).toMatchObject({ status: 'failed', terminal_reason: 'not_started' });
    const file = service.writeSpec('shop.yaml');
    expect(await start({ file, run_id: 'r' })).toMatchObject({ status: 200, state: 'running' });
    await readPlan('r');
    expect(await service.get('/v1/runs/r')).toMatchObject({ status: 'starting', file });
  });

  test.each(['../../etc/passwd', 'a/b', '%2e%2e', 'ü✓', 'x'.repeat(1_000)])(
    '%j is a name and no path',
    async (runId) => {
      const file = service.writeSpec('shop.yaml');
      expect(await start({ file, run_id: runId })).toMatchObject({ status: 200, run_id: runId });
      await readPlan(runId);
      expect(await service.get(`/v1/runs/${encodeURIComponent(runId)}`)).toMatchObject({ id: runId });
    },
  );

  test.each(['', '.', '..', 'latest', 'x'.repeat(1_001), '\ud800'])('%j is refused', async (runId) => {
    expect(await start({ file: '/none', run_id: runId })).toMatchObject({ status: 400, code: 'INVALID_SPEC' });
  });
});

describe('a cancel', () => {
  test('ends the run, and repeats the same answer', async () => {
    await leaveStarted(service.stores, 'r');
    await service.stores.events.append('r', listEvents(admit('workflow', 'a'), begin('a')));
    const cancel = async (body: unknown): Promise<Record<string, string>> =>
      (await (await service.request('POST', '/v1/runs/r/cancel', body)).json()) as Record<string, string>;
    const first = await cancel({ reason: 'not needed' });
    expect(first).toEqual({ run_id: 'r', state: 'cancelled', terminal_event_id: expect.any(String) });
    expect(await cancel({ reason: 'another' })).toEqual(first);
    expect(await cancel('')).toEqual(first);
    expect(service.cancelled).toEqual(['r']);
    const run = await service.get<RunState>('/v1/runs/r');
    expect(run).toMatchObject({
      status: 'cancelled',
      terminal_reason: 'not needed',
      stage_states: { a: { status: 'failed' } },
    });
    expect(run.events.at(-1)).toMatchObject({ event_type: 'run.cancelled', event_id: first['terminal_event_id'] });
  });

  test('ends a run that no worker has admitted', async () => {
    await start({ file: service.writeSpec('shop.yaml'), run_id: 'r' });
    await readPlan('r');
    const response = await service.request('POST', '/v1/runs/r/cancel', {});
    expect(await response.json()).toMatchObject({ state: 'cancelled', terminal_event_id: expect.any(String) });
  });

  test('ends a run that was lost', async () => {
    await leaveStarted(service.stores, 'r');
    const response = await service.request('POST', '/v1/runs/r/cancel', {});
    expect(await response.json()).toMatchObject({ state: 'cancelled', terminal_event_id: expect.any(String) });
  });

  test('changes nothing of a run that has ended', async () => {
    await service.stores.events.append('r', [...listEvents(admit('workflow', 'a')), finish('succeeded')]);
    const response = await service.request('POST', '/v1/runs/r/cancel', {});
    expect(await response.json()).toMatchObject({ state: 'succeeded' });
    expect(service.cancelled).toEqual([]);
  });
});

describe('a token', () => {
  let access: AccessStore;
  let root: string;
  const asToken = async (method: string, path: string, body?: unknown, runs: readonly string[] = []) => {
    const name = `ci-${Math.random().toString(36).slice(2)}`;
    const request = { name, scopes: ['run'], runs, groups: [], allowGit: [], lifeMs: 60_000 } as const;
    const { text } = await createToken(request, { tokens: access.tokens, nowMs: Date.now() });
    const headers = { authorization: `Bearer ${text}` };
    return await service.request(method, path, body, { bindings: TCP, headers });
  };

  beforeEach(() => {
    service.close();
    access = createMemoryAccess();
    service = openVoidBoxService({ access, readSpecRoot: () => root });
    root = join(service.dir, 'specs');
    mkdirSync(join(root, 'shop'), { recursive: true });
    mkdirSync(join(root, 'other'));
  });

  const write = (path: string, mounts: string): string => {
    const file = join(root, path);
    writeFileSync(file, SPEC.replace('isolation: none', `isolation: none, mounts: [${mounts}]`));
    return file;
  };

  test('starts a spec below the folder of specs, and the run is the token’s', async () => {
    write('shop/spec.yaml', '{ host: ., guest: /data, mode: ro }');
    const response = await asToken('POST', '/v1/runs', { file: 'shop/spec.yaml', run_id: 'r' });
    expect(response.status).toBe(200);
    await readPlan('r');
    expect(await service.stores.marks.get('r', 'client')).toMatchObject({
      baseDir: join(root, 'shop'),
      starter: { kind: 'token', name: expect.stringMatching(/^ci-/) },
    });
  });

  test.each([
    ['a file outside', () => service.writeSpec('outside.yaml')],
    ['a file that does not exist', () => join(root, 'none.yaml')],
    ['a way out', () => '../outside.yaml'],
    [
      'a link to a file outside',
      () => {
        symlinkSync(service.writeSpec('outside.yaml'), join(root, 'link.yaml'));
        return 'link.yaml';
      },
    ],
  ])('is refused with %s, and no answer shows whether it exists', async (_what, fileOf) => {
    service.writeSpec('outside.yaml');
    const response = await asToken('POST', '/v1/runs', { file: fileOf(), run_id: 'r' });
    expect(response.status).toBe(403);
    expect(await response.json()).toMatchObject({
      code: 'UNAUTHORIZED',
      message: expect.stringContaining('may only start a spec below `--spec-root`, and there is no such file'),
    });
    expect(await service.stores.records.get('r', 'void-box')).toBeNull();
  });

  test.each([
    ['a folder of the host', '{ host: /etc, guest: /data, mode: ro }'],
    ['the folder of another spec', '{ host: ../other, guest: /data, mode: ro }'],
    ['a folder for writing', '{ host: ., guest: /data, mode: rw }'],
  ])('has a run that fails if its spec mounts %s', async (_what, mounts) => {
    const file = write('shop/spec.yaml', mounts);
    await asToken('POST', '/v1/runs', { file, run_id: 'r' });
    const run = await vi.waitFor(async () => {
      const found = (await (await asToken('GET', '/v1/runs/r')).json()) as RunState;
      expect(found.status).toBe('failed');
      return found;
    }, WAIT);
    expect(run.terminal_reason).toBe('admit/mount-refused');
    expect(service.started).toEqual([]);
  });

  test('has a run that fails if an agent of its spec reads a document of the host', async () => {
    const file = join(root, 'shop/spec.yaml');
    const skills = `skills: ['file:${service.writeSpec('secret.md', 'secret')}']`;
    writeFileSync(file, `kind: agent\nname: shop\nllm: { provider: claude }\nagent: { prompt: hi, ${skills} }\n`);
    await asToken('POST', '/v1/runs', { file, run_id: 'r' });
    const run = await vi.waitFor(async () => {
      const found = (await (await asToken('GET', '/v1/runs/r')).json()) as RunState;
      expect(found.status).toBe('failed');
      return found;
    }, WAIT);
    expect(run).toMatchObject({
      terminal_reason: 'admit/mount-refused',
      error: expect.stringContaining('agent skill'),
    });
  });

  test('starts no spec without a folder of specs', async () => {
    root = null as unknown as string;
    const response = await asToken('POST', '/v1/runs', { file: '/x.yaml' });
    expect([response.status, await response.json()]).toEqual([
      403,
      expect.objectContaining({ code: 'UNAUTHORIZED', message: expect.stringContaining('has no `--spec-root`') }),
    ]);
  });

  test('starts and lists only its runs', async () => {
    const file = write('shop/spec.yaml', '');
    const response = await asToken('POST', '/v1/runs', { file, run_id: 'other' }, ['ci-*']);
    expect(response.status).toBe(403);
    expect((await asToken('POST', '/v1/runs', { file }, ['ci-*'])).status).toBe(403);
    await service.stores.events.append('other', listEvents(admit('workflow', 'a')));
    await service.stores.events.append('ci-1', listEvents(admit('workflow', 'a')));
    const { runs } = (await (await asToken('GET', '/v1/runs', undefined, ['ci-*'])).json()) as { runs: RunState[] };
    expect(runs.map(({ id }) => id)).toEqual(['ci-1']);
  });

  test('has sessions of its own', async () => {
    await service.request('POST', '/v1/sessions/s/messages', { role: 'user', content: 'of the owner' });
    expect(await (await asToken('GET', '/v1/sessions/s/messages')).json()).toEqual([]);
  });
});
