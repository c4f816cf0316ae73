/** Versions of deployments up to the start of their runs: the process that compiles is real, the server is not. */
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { RunRequest } from '../../activities/contract.ts';
import type { ClientMark } from '../../client/runs/client-record.ts';
import { evaluateTrigger } from '../../domain/language/expression/evaluate-trigger.ts';
import { fromWire, type PlanWire } from '../../domain/plan/wire.ts';
import { readEnvironment } from '../../setup/environment.ts';
import type { AccessStore } from '../../store/access.ts';
import { openStores } from '../../store/open-stores.ts';
import { openUploads, openVersionFolders } from '../../store/open-uploads.ts';
import type { Stores } from '../../store/stores.ts';
import type { VersionRow } from '../../store/triggers.ts';
import { type TarItem, writeTar } from '../../tar/write.ts';
import { createMemoryAccess } from '../../test/rig/access/memory-access.ts';
import { createTokenCaller } from '../../test/rig/access/token-caller.ts';
import { createStartLink, type StartedWorkflow } from '../../test/rig/runs/start-link.ts';
import { createTestMachine } from '../../test/rig/runs/test-machine.ts';
import type { Caller } from '../access/authenticate.ts';
import { createEvaluateDelivery } from '../deliveries/evaluate-delivery.ts';
import type { AppError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import type { SpecRefusal } from '../start/start-spec.ts';
import { deploy, type DeployRequest, type DeployTools } from './deploy.ts';
import { startDelivered } from './start-delivered.ts';
import { createVersionCompiler, type VersionCompiler } from './version-compiler.ts';

const OWNER: Caller = { kind: 'owner' };
const PUSH = 'on: [{ name: push, webhook: { verify: github, secret: HOOK } }]\n';
const step = (text: string): string => `workflow: { steps: [{ name: a, ${text} }] }\n`;
const SPEC = `kind: workflow\nname: review\nparams: { number: "0" }\nsandbox: { mode: mock, isolation: none }\n`;

let dir: string;
let env: ReturnType<typeof readEnvironment>;
let stores: Stores;
let machine: Machine;
let access: AccessStore;
let tools: DeployTools;
let known: Set<string>;
/** The values of secrets, by name. */
let values: Readonly<Record<string, string>>;
let started: StartedWorkflow[];
let compiler: VersionCompiler;

beforeAll(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-deploy-')));
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
beforeEach(async () => {
  stores = await openStores(env);
  started = [];
  const link = createStartLink({
    has: (id) => started.some(({ workflowId }) => workflowId === id),
    start: (each) => started.push(each),
  });
  machine = createTestMachine(stores, { env, stackLink: () => Promise.resolve(link) });
  access = createMemoryAccess();
  known = new Set(['HOOK', 'API_TOKEN']);
  values = {};
  tools = {
    triggers: access.triggers,
    folders: openVersionFolders(env),
    uploads: openUploads(env),
    compiler,
    readAllowedSources: () => ({ watch: [], outbox: [], queue: [] }),
    findClosedTarget: (url) => Promise.resolve(url.startsWith('https:') ? null : 'ops has no TLS'),
    readSecrets: (_, names) => Promise.resolve(Object.fromEntries(names.map((name) => [name, values[name] ?? '']))),
    listMissingSecrets: (_, names) => Promise.resolve(names.filter((name) => !known.has(name))),
  };
});
afterEach(async () => {
  await stores.close();
  rmSync(join(dir, 'state'), { recursive: true, force: true });
});

async function upload(...items: readonly TarItem[]): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of writeTar(items)) parts.push(part);
  const sha256 = createHash('sha256').update(Buffer.concat(parts)).digest('hex');
  async function* bytes() {
    yield* parts;
  }
  await tools.uploads.put(sha256, bytes(), null);
  return sha256;
}

async function deploySpec(spec: string, change: Partial<DeployRequest> = {}, caller = OWNER) {
  const request: DeployRequest = {
    name: null,
    spec,
    specName: 'review.yaml',
    files: null,
    specDir: '',
    bundles: {},
    params: {},
    mockAgents: false,
    isPaused: false,
    isDry: false,
    allowMounts: [],
    allowGit: [],
    notify: null,
    ...change,
  };
  return await deploy(request, caller, tools, machine);
}

const listFolders = (): readonly string[] => {
  try {
    return readdirSync(join(dir, 'state/deployments'));
  } catch {
    return [];
  }
};
const findVersion = async (version: number): Promise<VersionRow> =>
  (await access.triggers.deployments.findVersion('review', version))!;

describe('a deployment', () => {
  test('reads a queue only of servers that the operator of the service allows', async () => {
    const nats = 'servers: [tls://nats.example, tls://other.example:5], stream: S, consumer: c, creds: API_TOKEN';
    const spec = `${SPEC}on: [{ name: orders, queue: { nats: { ${nats} } } }]\n${step('run: ls')}`;
    const refusal = {
      code: 'deploy/source-not-allowed',
      message: expect.stringContaining('the trigger orders') as string,
    };
    for (const [allowed, server] of [
      [[], 'nats.example:4222'],
      [['nats.example:4222', 'other.example:4222'], 'other.example:5'],
    ] as const) {
      tools = { ...tools, readAllowedSources: () => ({ watch: [], outbox: [], queue: allowed }) };
      const remedy = expect.stringContaining(`voidbox up --allow-queue ${server}`) as string;
      await expect(deploySpec(spec)).rejects.toMatchObject({ ...refusal, remedy });
      await expect(deploySpec(spec, {}, createTokenCaller({ name: 'ci' }))).rejects.toMatchObject(refusal);
    }
    expect(listFolders()).toEqual([]);
    const queue = ['nats.example:4222', 'other.example:5'];
    tools = { ...tools, readAllowedSources: () => ({ watch: [], outbox: [], queue }) };
    const deployed = await deploySpec(spec);
    expect([deployed.isNew, deployed.secrets]).toEqual([true, ['API_TOKEN']]);
  });

  test('keeps the files of its version, its triggers and the names of its secrets', async () => {
    const files = await upload({ kind: 'file', path: 'data/x', mode: 0o644, body: Buffer.from('hello') });
    const mounts = 'sandbox: { mode: mock, isolation: none, mounts: [{ host: data, guest: /data }] }';
    const spec = SPEC.replace(/sandbox: .*/, mounts) + PUSH + step('run: ls, secrets: [API_TOKEN]');
    const deployed = await deploySpec(spec, { files }, createTokenCaller({ name: 'ci' }));
    expect(deployed).toMatchObject({ name: 'review', version: 1, isNew: true, isPaused: false });
    expect(deployed.triggers.map(({ name, source }) => [name, source.kind])).toEqual([['push', 'webhook']]);
    expect(deployed.secrets).toEqual(['API_TOKEN', 'HOOK']);
    const version = await findVersion(1);
    expect(version).toMatchObject({ spec, files, deployer: 'ci' });
    expect(listFolders()).toEqual([version.folder]);
    expect(readFileSync(join(dir, 'state/deployments', version.folder, 'data/x'), 'utf8')).toBe('hello');
  });

  test('is not changed by an equal version or by a dry run, which leave no folder', async () => {
    const spec = SPEC + PUSH + step('run: ls');
    await deploySpec(spec);
    expect(await deploySpec(spec)).toMatchObject({ version: 1, isNew: false });
    const dry = await deploySpec(SPEC + PUSH + step('run: pwd'), { isDry: true });
    expect(dry).toMatchObject({ version: null, isNew: true, changes: { stages: { changed: ['a'] } } });
    expect(await access.triggers.deployments.listVersions('review', 9)).toHaveLength(1);
    expect(listFolders()).toHaveLength(1);
  });

  test('with a mistake is refused with its place, and leaves nothing', async () => {
    await expect(deploySpec(`${SPEC}${step('rum: ls')}`)).rejects.toMatchObject({
      code: 'spec/invalid',
      diagnostics: [expect.objectContaining({ file: 'review.yaml', line: 5, message: expect.stringContaining('rum') })],
    });
    expect(listFolders()).toEqual([]);
    expect(await access.triggers.deployments.find('review')).toBeNull();
  });

  test('names the secrets that it may not use', async () => {
    known.delete('API_TOKEN');
    await expect(deploySpec(SPEC + PUSH + step('run: ls, secrets: [API_TOKEN]'))).rejects.toMatchObject({
      code: 'deploy/secret-missing',
      message: 'the deployment review has no secret API_TOKEN',
      remedy: 'Set it: voidbox secret set API_TOKEN --deployment review',
    });
  });

  const receive = (name: string, target: string): string => `{ name: ${name}, states: [failed], ${target} }`;
  const hook = (url: string): string => `webhook: { url: "${url}", secret: HOOK }`;
  const OPS = `notify: [${receive('ops', hook('https://ops.example/'))}]\n`;

  test('has the receivers of its spec, and those that its deployer adds', async () => {
    const text = `notify: [${receive('chat', 'slack: { secret: API_TOKEN }')}]\nlate_after: 2h\n`;
    values = { API_TOKEN: 'https://hooks.slack.example/x' };
    const spec = SPEC + OPS + step('run: ls');
    const added = await deploySpec(spec, { notify: { text, name: 'team.yaml' } });
    expect(added.notify.receivers.map(({ name, target }) => [name, target.kind])).toEqual([
      ['ops', 'webhook'],
      ['chat', 'slack'],
    ]);
    expect([added.notify.lateAfterMs, added.secrets]).toEqual([7_200_000, ['API_TOKEN', 'HOOK']]);
    const without = await deploySpec(spec);
    expect([without.notify.receivers.length, without.changes.others]).toEqual([1, ['notify']]);
  });

  test.each([
    [
      'the name of a receiver of its spec',
      receive('ops', hook('https://a.example/')),
      'team.yaml:1:18: the spec has a receiver "ops" too',
    ],
    ['a mistake', receive('chat', 'slack: { secret: 1 }'), 'team.yaml:1:'],
  ])('is refused with %s in the file of receivers, with its place', async (_what, receiver, text) => {
    const notify = { text: `notify: [${receiver}]`, name: 'team.yaml' };
    const refused = await deploySpec(SPEC + OPS + step('run: ls'), { notify }).catch((error: SpecRefusal) => error);
    expect(refused).toMatchObject({ code: 'spec/invalid' });
    const [{ file, line, column, message } = {}] = (refused as SpecRefusal).diagnostics;
    expect(`${file}:${line}:${column}: ${message}`).toContain(text);
    expect(listFolders()).toEqual([]);
  });

  test('is refused with a receiver to which nothing would be sent, with its place, its value and the remedy', async () => {
    const spec = `${SPEC}notify:\n  - ${receive('ops', hook('http://ops.internal:81/x'))}\n${step('run: ls')}`;
    await expect(deploySpec(spec)).rejects.toMatchObject({
      code: 'notify/closed-address',
      message: 'review.yaml:6:52: receiver ops: the service sends nothing to http://ops.internal:81/x: ops has no TLS',
      remedy: expect.stringContaining('voidbox up --allow-notify ops.internal:81') as string,
    });
    const notify = { text: `notify: [${receive('chat', 'slack: { secret: API_TOKEN }')}]`, name: 'team.yaml' };
    for (const [value, code] of [
      ['http://127.0.0.1/secret-path', 'notify/closed-address'],
      ['secret-path', 'notify/bad-secret'],
    ] as const) {
      values = { API_TOKEN: value };
      const refused = await deploySpec(SPEC + step('run: ls'), { notify }).catch((error: AppError) => error);
      expect(refused).toMatchObject({
        code,
        message: expect.stringContaining('team.yaml:1:59: receiver chat: ') as string,
      });
      expect(JSON.stringify([refused, (refused as AppError).message])).not.toContain('secret-path');
    }
    expect(listFolders()).toEqual([]);
  });

  test('reads an outbox only of a server that the operator allows, and whose address is in its secret', async () => {
    const spec = `${SPEC}on: [{ name: orders, outbox: { secret: API_TOKEN, table: orders } }]\n${step('run: ls')}`;
    tools = { ...tools, readAllowedSources: () => ({ watch: [], outbox: ['db.example:5432'], queue: [] }) };
    for (const [value, code] of [
      ['postgres://a:pass-word@other.example/x', 'deploy/source-not-allowed'],
      ['mysql://a:pass-word@db.example/x', 'source/bad-secret'],
    ] as const) {
      values = { API_TOKEN: value };
      const refused = await deploySpec(spec).catch((error: AppError) => error);
      expect(refused).toMatchObject({ code, message: expect.stringContaining('the trigger orders') as string });
      expect((refused as AppError).message).not.toMatch(/pass-word|other/);
    }
    values = { API_TOKEN: 'postgres://a:pass-word@db.example/x' };
    expect((await deploySpec(spec)).isNew).toBe(true);
  });

  const vm = (keys: string): string => SPEC.replace(/sandbox: .*/, `sandbox: { mode: mock, isolation: none, ${keys} }`);
  test.each([
    ['a folder of the host', vm('mounts: [{ host: /etc, guest: /data }]') + step('run: ls')],
    ['a folder above its files', vm('mounts: [{ host: .., guest: /data }]') + step('run: ls')],
    ['a writable folder', vm('mounts: [{ host: ., guest: /data, mode: rw }]') + step('run: ls')],
    [
      'a URL that it does not allow',
      SPEC.replace(/sandbox: .*\n/, '') + step('run: ls, workspace: { git: "https://example.com/app" }'),
    ],
  ])('may not have %s', async (_what, spec) => {
    await expect(deploySpec(spec)).rejects.toMatchObject({ code: 'admit/mount-refused' });
    expect(listFolders()).toEqual([]);
  });

  test('is made only by a token that may see its runs', async () => {
    const spec = SPEC + step('run: ls');
    const caller = createTokenCaller({ scopes: ['admin'], runs: ['other-*'] });
    await expect(deploySpec(spec, {}, caller)).rejects.toMatchObject({ code: 'api/not-allowed' });
    await expect(deploySpec(spec, { isDry: true }, caller)).rejects.toMatchObject({ code: 'api/not-allowed' });
    expect(await deploySpec(spec, { name: 'other' }, caller)).toMatchObject({ name: 'other', version: 1 });
  });

  test('that a token makes names no folder of the host, and the owner may name one', async () => {
    mkdirSync(join(dir, 'shared'), { recursive: true });
    const allowMounts = [join(dir, 'shared')];
    const spec = vm(`mounts: [{ host: ${allowMounts[0]}, guest: /data }]`) + step('run: ls');
    await expect(deploySpec(spec, { allowMounts }, createTokenCaller({}))).rejects.toMatchObject({
      code: 'admit/mount-refused',
      message: expect.stringContaining('a token deploys'),
    });
    expect(await deploySpec(spec, { allowMounts })).toMatchObject({ version: 1 });
  });

  test('is deployed from a folder whose path has 1,024 bytes, the most of all', async () => {
    const part = `${'é'.repeat(127)}/`;
    const specDir = `${part.repeat(4)}abcd`;
    expect(Buffer.byteLength(specDir)).toBe(1_024);
    const files = await upload({ kind: 'file', path: `${specDir}/x`, mode: 0o644, body: Buffer.from('hello') });
    await deploySpec(SPEC + step('run: ls'), { files, specDir });
    expect((await findVersion(1)).specDir).toBe(specDir);
  });

  test.each([
    [{ name: '../x' }, '`name`'],
    [{ name: 'x'.repeat(64) }, 'more than 63'],
    [{ specDir: '../..' }, '`specDir`'],
    [{ specDir: '/etc' }, '`specDir`'],
    [{ specDir: 'x'.repeat(1_025) }, '`specDir`'],
    [{ files: 'f'.repeat(64) }, 'there is no upload'],
    [{ allowMounts: ['relative'] }, '`allowMounts`'],
  ])('is refused with the request %j', async (change, text) => {
    await expect(deploySpec(SPEC + step('run: ls'), change)).rejects.toThrow(text);
    expect(listFolders()).toEqual([]);
  });
});

test('a version whose agents the mock agent plays needs no key of a model', async () => {
  const spec = 'kind: pipeline\nname: review\npipeline: { boxes: [{ name: a, prompt: hello }] }\n';
  await expect(deploySpec(spec)).rejects.toMatchObject({ code: 'deploy/secret-missing' });
  expect(await deploySpec(spec, { mockAgents: true })).toMatchObject({ isNew: true, secrets: [] });
  expect((await findVersion(1)).mockAgents).toBe(true);
  known.add('ANTHROPIC_API_KEY');
  expect((await deploySpec(spec)).changes.others).toEqual(['mockAgents']);
});

test.each([
  ['claude-personal', 'CLAUDE_CODE_OAUTH_TOKEN'],
  ['codex-personal', 'CODEX_AUTH_JSON'],
])('a version with agents of %s is refused, unless their login is a secret', async (provider, name) => {
  const spec = `kind: pipeline\nname: review\nllm: { provider: ${provider} }\npipeline: { boxes: [{ name: a, prompt: hello }] }\n`;
  await expect(deploySpec(spec)).rejects.toMatchObject({
    code: 'deploy/secret-missing',
    message: `the deployment review has no secret ${name}`,
    remedy: expect.stringContaining('A login of a person ends within hours') as string,
  });
  known.add(name);
  expect(await deploySpec(spec)).toMatchObject({ isNew: true, secrets: [name] });
});

const request = (): RunRequest => started[0]!.args[0];

describe('the run of a delivery', () => {
  const start = async (params: Readonly<Record<string, string>> = {}, input = '{"n":18446744073709551615}') =>
    await startDelivered(
      {
        delivery: {
          id: '01KB',
          deployment: 'review',
          traceparent: '00-1-2-01',
          cloudEvent: { source: '/s', id: 'e-1' },
        },
        version: await findVersion(1),
        params,
        input: Buffer.from(input),
        inputRef: null,
      },
      {
        ...tools,
        readSecrets: (_, names) => Promise.resolve(Object.fromEntries(names.map((name) => [name, `value of ${name}`]))),
        onProgress: () => undefined,
      },
      machine,
    );
  test('is compiled with the parameters of the delivery, and has secrets, an input and a mark', async () => {
    await deploySpec(
      `${SPEC}${PUSH}${step('run: { program: echo, args: ["${{ params.number }}"] }, secrets: [API_TOKEN]')}`,
      {},
      createTokenCaller({ name: 'ci' }),
    );
    expect(await start({ number: '--help; $(id)' })).toEqual({ kind: 'started' });
    expect(started.map(({ workflowId }) => workflowId)).toEqual(['review-01KB']);
    expect(JSON.stringify(request().plan)).toContain('--help; $(id)');
    expect(request().input).toEqual({ kind: 'inline', text: '{"n":18446744073709551615}' });
    expect(await stores.hostVariables.get('review-01KB')).toEqual({ API_TOKEN: 'value of API_TOKEN' });
    const mark = (await stores.marks.get('review-01KB', 'client')) as ClientMark;
    expect(mark.starter).toEqual({
      kind: 'deployment',
      name: 'review',
      version: 1,
      delivery: '01KB',
      deployer: 'ci',
      traceparent: '00-1-2-01',
      cloudEvent: { source: '/s', id: 'e-1' },
    });
    expect(mark.startedBy).toBeUndefined();
  });

  test('that has started before is the same run', async () => {
    await deploySpec(SPEC + PUSH + step('run: ls'));
    expect([await start(), await start()]).toEqual([{ kind: 'started' }, { kind: 'started' }]);
    expect(started).toHaveLength(1);
  });

  test('with a parameter that does not exist is refused, and a server that does not answer is a failed try', async () => {
    await deploySpec(SPEC + PUSH + step('run: ls'));
    expect(await start({ other: '1' })).toMatchObject({ kind: 'refused', code: 'spec/invalid' });
    machine = { ...machine, stackLink: () => Promise.resolve(null) };
    expect(await start()).toMatchObject({ kind: 'failed', code: 'cli/no-server' });
  });
});

describe('a payload', () => {
  /** Evaluates the trigger of the version for a payload, and starts the run. */
  const startFor = async (payload: object) => {
    const version = await findVersion(1);
    const [trigger] = version.triggers;
    const evaluate = createEvaluateDelivery({ evaluateTrigger: (asked) => Promise.resolve(evaluateTrigger(asked)) });
    const body = Buffer.from(JSON.stringify(payload));
    const evaluation = await evaluate(trigger!, { contentType: 'application/json', senderId: null, headers: {} }, body);
    if ('code' in evaluation) throw new Error(evaluation.message);
    const readSecrets = (_: string, names: readonly string[]) =>
      Promise.resolve(Object.fromEntries(names.map((name) => [name, `value of ${name}`])));
    return await startDelivered(
      {
        delivery: { id: '01KB', deployment: 'review', traceparent: null, cloudEvent: null },
        version,
        params: evaluation.params,
        input: body,
        inputRef: null,
      },
      { ...tools, readSecrets, onProgress: () => undefined },
      machine,
    );
  };
  const withParam = (sandbox: string): string =>
    SPEC.replace('params: { number: "0" }', 'params: { number: { type: text, default: main } }').replace(
      /sandbox: .*/,
      sandbox,
    ) + PUSH.replace('secret: HOOK }', 'secret: HOOK }, params: { number: "${{ input.x }}" }');

  test.each([
    ['folder of a mount', 'sandbox: { mounts: [{ host: "${{ params.number }}", guest: /data }] }', 'run: ls'],
    ['URL of a workspace', '', 'run: ls, workspace: { git: "${{ params.number }}" }'],
    ['name of a secret', '', 'run: ls, secrets: ["${{ params.number }}"]'],
    ['image', 'sandbox: { image: "${{ params.number }}" }', 'run: ls'],
  ])('is no %s: such a spec is not deployed', async (_what, sandbox, text) => {
    await expect(deploySpec(withParam(sandbox) + step(text))).rejects.toThrow('the spec has a mistake');
    expect(listFolders()).toEqual([]);
  });

  test.each(['--upload-pack=/bin/sh', '-q', 'main:evil', 'a..b', '@{-1}', 'https://example.com/x', 'main\nother'])(
    'gives git no option and no expression as a ref: %j',
    async (x) => {
      const spec =
        withParam('') + step('run: ls, workspace: { git: "https://example.com/app", ref: "${{ params.number }}" }');
      await deploySpec(spec, { allowGit: ['example.com/app'] });
      expect(await startFor({ x })).toMatchObject({ kind: 'refused', code: 'spec/invalid' });
      expect(started).toEqual([]);
    },
  );

  test('that names a secret, a placeholder, an option or code is an argument as it is', async () => {
    const sandbox = 'sandbox: { mode: mock, isolation: none }';
    const run = 'run: { program: echo, args: ["${{ params.number }}"] }, secrets: [API_TOKEN]';
    await deploySpec(withParam(sandbox) + step(run));
    const x = '--help ${{ secrets.HOOK }} ${{ params.number }} $HOOK ${API_TOKEN} `id`; $(id)';
    expect(await startFor({ x, secrets: ['HOOK'], HOOK: 'mine' })).toEqual({ kind: 'started' });
    const [stage] = fromWire(request().plan as PlanWire).stages;
    expect(stage!.work).toMatchObject({ program: 'echo', args: [x] });
    expect(await stores.hostVariables.get('review-01KB')).toEqual({ API_TOKEN: 'value of API_TOKEN' });
  });
});
