import { mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { afterAll, describe, expect, test } from 'vitest';
import type { ServerLink } from '../../client/temporal/server-link.ts';
import { readEnvironment } from '../../setup/environment.ts';
import { MemoryPlace, openMemoryStores } from '../../test/rig/runs/memory-stores.ts';
import type { Machine } from '../machine.ts';
import { compileText } from '../../domain/language/load.ts';
import type { Stores } from '../../store/stores.ts';
import type { CliContext } from '../../cli/context.ts';
import type { TokenStarter } from './token-rules.ts';
import { findTakenId, requestOf, startRun, type StartRequest } from './start-run.ts';

const { plan } = compileText('kind: workflow\nname: shop\nworkflow: { steps: [{ name: a, run: ls }] }\n', 'x.yaml', {
  baseDir: null,
});
/** 32 random bytes. */
const START_KEY: unknown = expect.stringMatching(/^[\w-]{43}$/);
const STORES = { artifacts: {}, records: {} } as unknown as Stores;
const CONTEXT = { env: { temporalConfigured: true } } as unknown as CliContext;
const OPTIONS = { written: plan!, mock: null, mockAgents: null, runId: 'shop-2', input: null };

test('the input of a retry without a plan has the name of the plan, for readers of its history', async () => {
  const origin = { runId: 'shop-1', kind: 'retry', from: null } as const;
  const from = { origin, isSamePlan: true } as never;
  expect(await requestOf({ ...OPTIONS, from }, STORES, CONTEXT)).toEqual({ name: 'shop', origin });
});

test('the input of another run has its plan, which has the name', async () => {
  const request = await requestOf({ ...OPTIONS, from: null }, STORES, CONTEXT);
  expect(request).toMatchObject({ plan: { name: 'shop' } });
  expect(request).not.toHaveProperty('name');
});

describe('an id that a run on the server has, which is not admitted yet', () => {
  const dir = mkdtempSync(join(tmpdir(), 'voidbox-start-run-'));
  afterAll(() => rmSync(dir, { recursive: true, force: true }));
  const describeTaken = (): Promise<object> =>
    Promise.resolve({ status: { name: 'RUNNING' }, startTime: new Date(), closeTime: undefined });
  const client = { workflow: { getHandle: () => ({ describe: describeTaken }) } } as unknown as Client;
  const LINK = { client: () => client } as Partial<ServerLink> as ServerLink;

  async function start(stackLink: Machine['stackLink']) {
    const stores = openMemoryStores(new MemoryPlace());
    await stores.records.put('taken', 'input', { of: 'the other run' });
    await stores.records.put('taken', 'source', { of: 'the other run' });
    const context = {
      env: readEnvironment({ VOIDBOX_STATE_DIR: join(dir, 'state'), VOIDBOX_CACHE_DIR: join(dir, 'cache') }),
      stores: () => Promise.resolve(stores),
      stackLink,
    } as unknown as Machine;
    const request = {
      ...OPTIONS,
      plan: { ...plan!, scopes: [] },
      from: null,
      runId: 'taken',
      source: { path: null, text: 'kind: workflow', params: {}, mode: null },
      hostVariables: {},
      baseDir: dir,
      places: new Map(),
      images: [],
      allowMounts: [],
      allowGit: [],
      input: Buffer.alloc(100_000),
      mayAsk: false,
    } as unknown as StartRequest;
    const error: unknown = await startRun(request, context, () => undefined).catch((thrown: unknown) => thrown);
    const left = [await stores.records.get('taken', 'input'), await stores.records.get('taken', 'source')];
    return { error, left };
  }

  test('is refused, and the records of that run stay', async () => {
    const { error, left } = await start(() => Promise.resolve(LINK));
    expect(error).toMatchObject({ code: 'cli/usage', message: 'run taken already exists: choose another --run-id' });
    expect(findTakenId(error)).toBe('taken');
    expect(left).toEqual([{ of: 'the other run' }, { of: 'the other run' }]);
  });

  test('keeps its records also if the start fails before the server is asked', async () => {
    const { error, left } = await start(() => Promise.resolve(null));
    expect(error).toMatchObject({ code: 'cli/no-server' });
    expect(left).toEqual([{ of: 'the other run' }, { of: 'the other run' }]);
  });
});

describe('a retry of a run that a token started', () => {
  const dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-start-retry-')));
  afterAll(() => rmSync(dir, { recursive: true, force: true }));
  const folder = join(dir, 'uploads');
  mkdirSync(join(folder, 'data'), { recursive: true });
  mkdirSync(join(dir, 'other'));
  const MARK = { baseDir: folder, allowGit: ['example.com/app'], starter: { kind: 'token', name: 'ci' } } as const;

  async function start(
    kind: 'retry' | 'fork',
    {
      host = join(folder, 'data'),
      starter = null,
    }: { readonly host?: string; readonly starter?: TokenStarter | null } = {},
  ) {
    const stores = openMemoryStores(new MemoryPlace());
    await stores.marks.put('earlier', 'client', MARK);
    const missing = (): Promise<never> => Promise.reject(new WorkflowNotFoundError('none', 'x', undefined));
    const workflow = { getHandle: () => ({ describe: missing }), start: () => Promise.resolve() };
    const link = { client: () => ({ workflow }) as unknown as Client } as Partial<ServerLink> as ServerLink;
    const context = {
      env: readEnvironment({ VOIDBOX_STATE_DIR: join(dir, 'state'), VOIDBOX_CACHE_DIR: join(dir, 'cache') }),
      cwd: dir,
      stores: () => Promise.resolve(stores),
      stackLink: () => Promise.resolve(link),
    } as unknown as Machine;
    const { plan: mounting } = compileText(
      `kind: workflow\nname: shop\nsandbox: { mode: mock, isolation: none, mounts: [{ host: "${host}", guest: /d, mode: ro }] }\nworkflow: { steps: [{ name: a, run: ls }] }\n`,
      'x.yaml',
      { baseDir: dir },
    );
    const request = {
      ...OPTIONS,
      plan: mounting!,
      written: mounting!,
      from: { origin: { runId: 'earlier', kind, from: null }, isSamePlan: false, continued: null } as never,
      source: null,
      hostVariables: {},
      baseDir: dir,
      places: new Map(),
      images: [],
      allowMounts: [dir],
      allowGit: ['example.com/other'],
      starter,
      mayAsk: false,
    } satisfies StartRequest;
    await startRun(request, context, () => undefined);
    return await stores.marks.get('shop-2', 'client');
  }

  test('keeps the limits of the token, also if the owner retries it', async () => {
    expect(await start('retry')).toEqual({ ...MARK, startKey: START_KEY });
    await expect(start('retry', { host: join(dir, 'other') })).rejects.toMatchObject({ code: 'admit/mount-refused' });
  });

  test('has the limits of the token that retries it, and the uploads of the earlier run', async () => {
    const starter = { name: 'cd', allowGit: [], folder: join(dir, 'empty') };
    expect(await start('retry', { starter })).toEqual({
      baseDir: folder,
      allowGit: [],
      starter: { kind: 'token', name: 'cd' },
      startedBy: ['ci'],
      startKey: START_KEY,
    });
  });

  test('has the rights of the owner if it is a fork, whose spec is a file of the owner', async () => {
    const mark = await start('fork', { host: join(dir, 'other') });
    expect(mark).toEqual({
      baseDir: dir,
      allow: [dir],
      allowGit: ['example.com/other'],
      startedBy: ['ci'],
      startKey: START_KEY,
    });
  });
});
