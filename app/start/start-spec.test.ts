import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { readEnvironment } from '../../setup/environment.ts';
import type { Machine } from '../machine.ts';
import { RunExistsError } from '../../client/runs/runs.ts';
import type { ServerLink } from '../../client/temporal/server-link.ts';
import { createExistsError } from './start-run.ts';
import { SpecRefusal, type SpecRequest, startOnce, startSpec } from './start-spec.ts';

const dir = mkdtempSync(join(tmpdir(), 'voidbox-start-spec-'));
writeFileSync(join(dir, 'file'), '');
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const CALLER: Machine = {
  env: readEnvironment({
    VOIDBOX_STATE_DIR: join(dir, 'state'),
    SECRET_OF_THE_PROCESS: 'x',
    VOIDBOX_LLM_PROVIDER: 'no such provider',
  }),
  cwd: '/',
  readStdin: () => Promise.reject(new Error('nothing to read')),
  confirm: () => Promise.reject(new Error('no person')),
  stores: () => Promise.reject(new Error('the run would start')),
  now: () => new Date(),
  warn: () => Promise.resolve(),
};

const REQUEST: SpecRequest = {
  spec: 'kind: workflow\nname: a\nworkflow: { steps: [{ name: a, run: ls }] }\n',
  baseDir: dir,
  params: {},
  input: null,
  runId: null,
  mock: null,
  mockAgents: false,
  variables: {},
  allowMounts: [],
  allowGit: [],
};

const start = (change: Partial<SpecRequest>): Promise<unknown> =>
  startSpec({ ...REQUEST, ...change }, () => undefined, CALLER);

test('a spec that compiles reaches the start, and no setting of the process changes it', async () => {
  await expect(start({})).rejects.toThrow('the run would start');
});

test('a spec with mistakes is refused with all of them, under the name `spec`', async () => {
  const refusal = await start({
    spec: 'kind: workflow\nname: a\nworkflow: { steps: [{ name: a, rum: ls }] }\nx: 1\n',
  }).catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(SpecRefusal);
  const { diagnostics, code } = refusal as SpecRefusal;
  expect(code).toBe('spec/invalid');
  expect(diagnostics.filter(({ severity }) => severity === 'error').length).toBeGreaterThan(0);
  expect(new Set(diagnostics.map(({ file }) => file))).toEqual(new Set(['spec']));
  expect(diagnostics.map(({ line }) => line)).toContain(3);
});

test('a spec gets no variable of the process, and the refusal names `variables`', async () => {
  const spec =
    'kind: workflow\nname: a\nworkflow: { steps: [{ name: a, run: ls, secrets: [SECRET_OF_THE_PROCESS] }] }\n';
  await expect(start({ spec })).rejects.toMatchObject({
    code: 'host/variable-missing',
    remedy: expect.stringContaining('`variables` of the request'),
  });
  await expect(start({ spec, variables: { SECRET_OF_THE_PROCESS: 'y' } })).rejects.toThrow('the run would start');
});

test('a setting in the variables of the request is read', async () => {
  await expect(start({ variables: { VOIDBOX_LLM_PROVIDER: 'none' } })).rejects.toMatchObject({
    code: 'cli/variable-invalid',
  });
});

test.each([
  ['a relative folder', { baseDir: 'here' }, 'absolute'],
  ['a folder that is missing', { baseDir: join(dir, 'none') }, 'does not exist'],
  ['a file', { baseDir: join(dir, 'file') }, 'not a folder'],
  ['a further folder that is relative', { allowMounts: ['x'] }, 'absolute'],
  ['the id `..`', { runId: '..' }, 'no URL'],
  ['the id `latest`', { runId: 'latest' }, 'last started'],
  ['an id of 1,001 bytes', { runId: 'x'.repeat(1_001) }, '1001 bytes'],
  ['an id with a lone surrogate', { runId: '\ud800' }, 'Unicode'],
])('%s is refused', async (_what, change, reason) => {
  await expect(start(change)).rejects.toMatchObject({
    code: 'api/invalid-request',
    message: expect.stringContaining(reason),
  });
});

describe('a generated id', () => {
  const LINK = {} as ServerLink;
  /** Starts with the ids 1, 2 and so on; runs have those below `free`. */
  async function startAt(free: number): Promise<{ readonly result: unknown; readonly tried: readonly string[] }> {
    const tried: string[] = [];
    let next = 0;
    const result = await startOnce(
      () => String((next += 1)),
      async (runId) => {
        tried.push(runId);
        if (Number(runId) < free) throw createExistsError(new RunExistsError(runId));
        return LINK;
      },
    ).catch((error: unknown) => error);
    return { result, tried };
  }

  test('that a run has already is replaced by another one', async () => {
    expect(await startAt(3)).toEqual({ result: { runId: '3', link: LINK }, tried: ['1', '2', '3'] });
  });

  test('is tried five times', async () => {
    expect(await startAt(5)).toMatchObject({ result: { runId: '5' } });
    const { result, tried } = await startAt(6);
    expect([(result as Error).message, tried.length]).toEqual(['run 5 already exists: choose another --run-id', 5]);
  });

  test('is not replaced after another error', async () => {
    let tries = 0;
    const start = (): Promise<ServerLink> => {
      tries += 1;
      return Promise.reject(new Error('no server'));
    };
    await expect(startOnce(() => 'a', start)).rejects.toThrow('no server');
    expect(tries).toBe(1);
  });
});
