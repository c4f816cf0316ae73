/** The process that compiles versions of deployments: its limits, its death, and what it must not do. */
import { mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { readEnvironment } from '../../setup/environment.ts';
import { COMPILE_LIMITS, createVersionCompiler, type VersionCompiler } from './version-compiler.ts';

const SPEC = `kind: workflow\nname: review\nparams: { number: "0" }\nsandbox: { mode: mock, isolation: none }\n`;
const step = (text: string): string => `workflow: { steps: [{ name: a, ${text} }] }\n`;

let dir: string;
let env: ReturnType<typeof readEnvironment>;
let compiler: VersionCompiler;

beforeAll(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-compiler-')));
  env = readEnvironment({
    PATH: process.env['PATH'],
    VOIDBOX_STATE_DIR: join(dir, 'state'),
    VOIDBOX_CACHE_DIR: join(dir, 'cache'),
  });
  compiler = createVersionCompiler({ env });
});
afterAll(() => {
  compiler.close();
  rmSync(dir, { recursive: true, force: true });
});

describe('the process that compiles', () => {
  const asked = {
    spec: SPEC + step('run: ls'),
    specName: 'x',
    folder: '/nowhere',
    specDir: '',
    bundles: {},
    params: {},
    deployedParams: {},
    isDeployed: false,
    allowMounts: [],
    allowGit: [],
    mockAgents: false,
    notify: null,
  };

  test('refuses another commit of a repository than the one that was sent', async () => {
    const spec =
      SPEC.replace('number: "0"', 'sha: main').replace(/sandbox: .*\n/, '') +
      step('run: ls, workspace: { git: ., ref: "${{ params.sha }}" }');
    const sent = { ...asked, spec, bundles: { '.': '0'.repeat(64) } };
    expect(await compiler.compile({ ...sent, params: { sha: 'main' } })).toMatchObject({ kind: 'compiled' });
    expect(await compiler.compile({ ...sent, params: { sha: 'other' } })).toMatchObject({
      kind: 'refused',
      code: 'cli/not-remote',
      message: 'stage a works in `other` of its repository, and the deployment has only `main`',
    });
    const deployedParams = { sha: 'other' };
    expect(await compiler.compile({ ...sent, params: { sha: 'other' }, deployedParams })).toMatchObject({
      kind: 'compiled',
    });
  });

  test('ends after its time, and the next request gets a new one', async () => {
    const own = createVersionCompiler({ env, limits: { ...COMPILE_LIMITS, answerMs: 1 } });
    await expect(own.compile(asked)).rejects.toMatchObject({
      code: 'deploy/too-costly',
      message: expect.stringContaining('0.001 s'),
    });
    own.close();
    expect((await compiler.compile(asked)).kind).toBe('compiled');
  });

  test('may start slowly: the request fails without a verdict about the spec', async () => {
    const own = createVersionCompiler({ env, limits: { ...COMPILE_LIMITS, startMs: 1 } });
    onTestFinished(() => own.close());
    const error = await own.compile(asked).catch((reason: unknown) => reason);
    expect(error).not.toMatchObject({ code: 'deploy/too-costly' });
    expect((error as Error).message).toBe('the compiler of deployments did not start within 0.001 s');
  });

  test('may be killed by others: the request fails without a verdict about the spec, and the next one works', async () => {
    const own = createVersionCompiler({ env });
    onTestFinished(() => own.close());
    const listCompilers = (): readonly string[] =>
      readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8')
        .split(' ')
        .filter((pid) => pid !== '' && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('compile-main'));
    const before = new Set(listCompilers());
    const failed = own.compile(asked).catch((error: unknown) => error);
    const pid = await vi.waitUntil(() => listCompilers().find((each) => !before.has(each)), {
      timeout: 20_000,
      interval: 1,
    });
    process.kill(Number(pid), 'SIGKILL');
    const error = await failed;
    expect(error).not.toMatchObject({ code: 'deploy/too-costly' });
    expect((error as Error).message).toContain('ended with signal SIGKILL');
    expect((await own.compile(asked)).kind).toBe('compiled');
  });

  test('ends with the limit of its memory, however long the stack is that Node prints after the reason', async () => {
    // Each line of the stack has the path of Node.
    const folder = mkdtempSync(join(tmpdir(), 'voidbox-node-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const deep = join(folder, 'x'.repeat(200), 'x'.repeat(200));
    mkdirSync(deep, { recursive: true });
    symlinkSync(realpathSync(process.execPath), join(deep, 'node'));
    const node = vi.spyOn(process, 'execPath', 'get').mockReturnValue(join(deep, 'node'));
    onTestFinished(() => node.mockRestore());
    const own = createVersionCompiler({ env, limits: { ...COMPILE_LIMITS, memoryMib: 12 } });
    await expect(own.compile(asked)).rejects.toMatchObject({
      code: 'deploy/too-costly',
      message: expect.stringContaining('12 MiB'),
    });
    own.close();
  });

  test('gets no variable of the service', async () => {
    const spec = SPEC.replace('params: { number: "0" }\n', '') + step('run: ls, env: { A: "${HOME}" }');
    const answer = await compiler.compile({ ...asked, spec });
    expect(JSON.stringify(answer)).not.toContain(process.env['HOME']);
  });
});
