/** Runs of deployments and tried events on the command line, against the HTTP API on a socket. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { setSecret } from '../../app/secrets/change-secrets.ts';
import type { AccessStore } from '../../store/access.ts';
import type { DeliveryRow } from '../../store/triggers.ts';
import { makeVersion, WEBHOOK } from '../conformance/deployments.ts';
import { createMemoryAccess } from '../rig/access/memory-access.ts';
import { type DeliveredEnd, endNextDelivery } from '../rig/runs/end-delivery.ts';
import { MemoryPlace, openMemoryStores } from '../rig/runs/memory-stores.ts';
import { typeCommand } from '../rig/runs/typed-command.ts';
import { startTestApi, type TestApi } from '../rig/servers/test-api.ts';

const dir = mkdtempSync(join(tmpdir(), 'voidbox-trigger-'));
const access: AccessStore = createMemoryAccess();
const stores = openMemoryStores(new MemoryPlace());
let api: TestApi;

beforeAll(async () => {
  await access.triggers.deployments.deploy(makeVersion('review', { triggers: [WEBHOOK], paramNames: ['n', 'm'] }), {
    isPaused: false,
  });
  api = await startTestApi({
    stateDir: join(dir, 'state'),
    stores,
    access,
    hooks: { readSecrets: () => Promise.resolve(['a secret']), wake: () => undefined },
  });
  writeFileSync(join(dir, 'one.json'), '{"n":1}');
  writeFileSync(join(dir, 'two.json'), '{"n":2}');
});
afterAll(async () => {
  await api.close();
  rmSync(dir, { recursive: true, force: true });
});

async function type(...words: readonly string[]) {
  const env = { VOIDBOX_SERVER: `unix:${api.socket}`, VOIDBOX_STATE_DIR: join(dir, 'client') };
  return await typeCommand(words, dir, env);
}

async function find(id: string): Promise<DeliveryRow> {
  return (await access.triggers.deliveries.find(id))!;
}

async function bodyOf(id: string): Promise<string> {
  return Buffer.from((await access.triggers.deliveries.readBody(id))!).toString();
}

test('a run of a deployment is a delivery, whose id is the only line of standard output', async () => {
  const { code, stdout, stderr } = await type(
    'trigger',
    'review',
    '--input',
    '@one.json',
    '--param',
    'n=1',
    '--param',
    'm=2',
  );
  const id = stdout.trimEnd();
  expect([code, stdout]).toEqual([0, `${id}\n`]);
  expect(stderr).toContain(`logs -f review-${id}`);
  expect(await find(id)).toMatchObject({ deployment: 'review', trigger: 'api', params: { n: '1', m: '2' } });
  expect(await bodyOf(id)).toBe('{"n":1}');
});

test('a run has the times that its options name', async () => {
  const { stdout } = await type('trigger', 'review', '--at', '2027-01-01T06:00:00+01:00', '--ttl', '2h', '--json');
  const { delivery } = JSON.parse(stdout) as { readonly delivery: string };
  const at = Date.UTC(2027, 0, 1, 5);
  expect(await find(delivery)).toMatchObject({ notBeforeMs: at, expiresAtMs: at + 7_200_000 });
  const later = await find((await type('trigger', 'review', '--after', '90s')).stdout.trimEnd());
  // It is accepted a moment after the service has read the clock for the delay.
  const delayMs = later.notBeforeMs! - later.acceptedAtMs;
  expect(delayMs).toBeLessThanOrEqual(90_000);
  expect(delayMs).toBeGreaterThan(85_000);
});

describe('a command that waits', () => {
  const wait = async (end: DeliveredEnd, ...words: readonly string[]) => {
    const typed = type('trigger', 'review', '--wait', ...words);
    const own = endNextDelivery({ deliveries: access.triggers.deliveries, stores }, end);
    const [printed] = await Promise.all([typed, own]);
    return printed;
  };

  // The delivery of an earlier test.
  beforeAll(() => endNextDelivery({ deliveries: access.triggers.deliveries, stores }, {}));

  test('prints the output of the run', async () => {
    expect(await wait({ output: 'all is \x1b[31mwell\n' })).toMatchObject({ code: 0, stdout: 'all is well\n' });
    const { stdout } = await wait({ output: 'x' }, '--json');
    expect(JSON.parse(stdout)).toMatchObject({ state: 'succeeded', outputText: 'x' });
  });

  test('fails with the run, or without one', async () => {
    const failed = await wait({ state: 'failed' });
    expect([failed.code, failed.stdout, failed.stderr]).toEqual([
      1,
      '',
      expect.stringMatching(/has failed: .*status review-/),
    ]);
    const filtered = await wait({ holds: false });
    expect([filtered.code, filtered.stderr]).toEqual([
      1,
      expect.stringContaining('The delivery starts no run: it is filtered'),
    ]);
  });
});

test('events are sent as their sender would send them, in another order and again with their ids', async () => {
  const words = ['--body', 'one.json', '--body', 'two.json', '--times', '2', '--reorder', '--event', 'push', '--json'];
  const { code, stdout } = await type('delivery', 'send', 'review', 'push', ...words);
  expect(code).toBe(0);
  const { sent } = JSON.parse(stdout) as { readonly sent: readonly { readonly delivery: string }[] };
  const rows = await Promise.all(sent.map(({ delivery }) => find(delivery)));
  expect(await Promise.all(rows.map(({ id }) => bodyOf(id)))).toEqual(['{"n":2}', '{"n":1}', '{"n":2}', '{"n":1}']);
  expect(rows.map(({ senderId }) => senderId)).toEqual([0, 1, 0, 1].map((at) => rows[at]!.senderId));
  expect(rows[0]).toMatchObject({ headers: { 'x-github-event': 'push', 'content-type': 'application/json' } });
});

test('a refused event names its file and the reason', async () => {
  const header = ['--header', 'X-Hub-Signature-256: sha256=00'];
  const { code, stdout } = await type('delivery', 'send', 'review', 'push', '--body', 'one.json', ...header);
  expect([code, stdout]).toEqual([1, 'one.json  refused: its signature, its id or its time has another form\n']);
});

describe('a deployment', () => {
  const receiver = { name: 'team', states: ['failed'], cloudevents: { url: 'https://192.0.2.7/' } };
  const step = { name: 'a', run: { program: 'true' } };
  const spec = { kind: 'workflow', name: 'told', sandbox: { mode: 'mock' }, workflow: { steps: [step] } };

  test('has the spec that the code of a definition makes, and the files that this names', async () => {
    mkdirSync(join(dir, 'made/parts'), { recursive: true });
    const part = { kind: 'workflow', name: 'part', workflow: { steps: [{ ...step, name: 'own' }] } };
    writeFileSync(join(dir, 'made/parts/part.json'), JSON.stringify(part));
    const code = `import { appendFileSync } from 'node:fs';
      import { defineWorkflow, param, step, uses } from 'voidbox';
      appendFileSync('ran', 'once');
      const greet = step('greet', ['echo', param('who')]);
      export default defineWorkflow({
        name: 'made', params: { who: 'all' }, sandbox: { mode: 'mock' }, output: greet, steps: [greet, uses('rest', './parts/part.json')],
        on: [{ name: 'push', webhook: { verify: 'none' }, params: { who: '\${{ input.who }}' } }],
      });`;
    writeFileSync(join(dir, 'made/made.ts'), code);
    const { code: exit, stdout, stderr } = await type('deploy', 'made/made.ts', '--json');
    expect([exit, stderr]).toEqual([0, expect.not.stringContaining('error')]);
    expect(JSON.parse(stdout)).toMatchObject({ name: 'made', version: 1, isNew: true });
    expect(readFileSync(join(dir, 'made/ran'), 'utf8')).toBe('once');
    const version = (await access.triggers.deployments.findVersion('made', 1))!;
    expect([version.specName, JSON.parse(version.spec)]).toMatchObject([
      'made.ts.json',
      { name: 'made', params: { who: 'all' } },
    ]);
    expect(version.triggers.map(({ name, params }) => [name, params])).toEqual([['push', { who: '${{ input.who }}' }]]);
    const listFiles = readdirSync(join(dir, 'state/deployments', version.folder), { recursive: true });
    expect(listFiles.toSorted()).toEqual(['parts', 'parts/part.json']);
  });

  test('is refused with the place in the code of a definition that no deployment may have', async () => {
    const code = `import { defineWorkflow, param, step } from 'voidbox';
      const greet = step('greet', ['echo', param('who')]);
      export default defineWorkflow({
        name: 'lacks', params: { who: { type: 'text' } }, steps: [greet], on: [{ name: 'push', webhook: { verify: 'none' } }],
      });`;
    writeFileSync(join(dir, 'lacks.ts'), code);
    const { code: exit, stderr } = await type('deploy', 'lacks.ts');
    expect([exit, stderr]).toEqual([
      2,
      expect.stringMatching(/lacks\.ts:3:\d+: .*error.*gives no value to the parameter "who"/),
    ]);
    expect(await access.triggers.deployments.find('lacks')).toBeNull();
  });

  test('gets the receivers of a file, and a mistake in the file is shown with its place', async () => {
    writeFileSync(join(dir, 'told.json'), JSON.stringify(spec));
    writeFileSync(join(dir, 'team.json'), JSON.stringify({ notify: [receiver] }));
    const words = ['deploy', 'told.json', '--notify', 'team.json', '--dry-run', '--json'];
    const refused = await type(...words);
    expect([refused.code, refused.stderr]).toEqual([
      2,
      expect.stringMatching(/team\.json:1:\d+: receiver team: .* 192\.0\.2\.7/),
    ]);
    writeFileSync(
      join(dir, 'team.json'),
      JSON.stringify({ notify: [{ ...receiver, cloudevents: { url: 'https://1.1.1.1/' } }] }),
    );
    const { code, stdout } = await type(...words);
    expect([code, JSON.parse(stdout)]).toMatchObject([0, { notify: { receivers: [{ name: 'team' }] } }]);
    writeFileSync(join(dir, 'team.json'), JSON.stringify({ notify: [{ ...receiver, states: [] }] }));
    const mistaken = await type(...words.slice(0, -1));
    expect([mistaken.code, mistaken.stderr]).toEqual([2, expect.stringContaining('team.json:1:')]);
    expect((await type('deploy', 'told.json', '--notify', 'none.json')).stderr).toContain(
      'the file `none.json` does not exist',
    );
  });
});

test('`validate` warns about a followed deployment that the service does not have', async () => {
  const on = ['review', 'bild'].map((of) => ({ name: `after-${of}`, run: { of } }));
  const steps = [{ name: 'a', run: { program: 'true' } }];
  writeFileSync(join(dir, 'after.json'), JSON.stringify({ kind: 'workflow', name: 'after', on, workflow: { steps } }));
  const { code, stderr } = await type('validate', 'after.json');
  expect([code, stderr.match(/follows the deployment \w+/g)]).toEqual([0, ['follows the deployment bild']]);
  expect(stderr).toMatch(/after\.json:1:\d+/);
  const findAll = async (change: Readonly<Record<string, string>>) => {
    const words = ['validate', 'after.json', '--json'];
    const env = { VOIDBOX_STATE_DIR: join(dir, 'client'), ...change };
    const { onThisHost } = JSON.parse((await typeCommand(words, dir, env)).stdout) as {
      readonly onThisHost: { readonly absentUpstreams: readonly { readonly message: string }[] | null };
    };
    return onThisHost.absentUpstreams?.length ?? null;
  };
  // A machine without a deployment, and a service that does not answer.
  expect([await findAll({}), await findAll({ VOIDBOX_SERVER: 'unix:/nowhere/api.sock' })]).toEqual([2, null]);
});

test('`validate` warns about each secret that a deployment would lack, at its place', async () => {
  const spec = {
    kind: 'workflow',
    name: 'review',
    on: [
      { name: 'push', webhook: { verify: 'github', secret: 'HOOK' } },
      { name: 'row', outbox: { secret: 'OF_ANOTHER', table: 'a' } },
    ],
    notify: [{ name: 'chat', states: ['failed'], slack: { secret: 'FOR_ALL' } }],
    workflow: { steps: [{ name: 'a', secrets: ['API_TOKEN'], run: { program: 'true' } }] },
  };
  writeFileSync(join(dir, 'secrets.json'), JSON.stringify(spec, null, 1));
  const place = { secrets: access.triggers.secrets, keyFile: { path: join(dir, 'key'), isOwn: true }, nowMs: 1 };
  await setSecret({ name: 'FOR_ALL', deployments: [], value: 'x' }, place);
  await setSecret({ name: 'OF_ANOTHER', deployments: ['web'], value: 'x' }, place);
  const validate = async (change: Readonly<Record<string, string>>) => {
    const env = { VOIDBOX_STATE_DIR: join(dir, 'client'), ...change };
    const { code, stdout } = await typeCommand(['validate', 'secrets.json', '--json'], dir, env);
    const { onThisHost } = JSON.parse(stdout) as {
      readonly onThisHost: {
        readonly absentSecrets: readonly { readonly message: string; readonly line: number }[] | null;
      };
    };
    expect(code).toBe(0);
    return onThisHost.absentSecrets?.map(({ message, line }) => [message.split(' ').at(-1), line]) ?? null;
  };
  expect(await validate({ VOIDBOX_SERVER: `unix:${api.socket}` })).toEqual([
    ['API_TOKEN', 1],
    ['HOOK', 9],
    ['OF_ANOTHER', 15],
  ]);
  // A machine without a secret, and a service that does not answer.
  expect((await validate({}))?.map(([name]) => name)).toEqual(['API_TOKEN', 'FOR_ALL', 'HOOK', 'OF_ANOTHER']);
  expect(await validate({ VOIDBOX_SERVER: 'unix:/nowhere/api.sock' })).toBeNull();
  const { stderr } = await type('validate', 'secrets.json');
  expect(stderr).toMatch(/secrets\.json:9:\d+: .*would have no secret HOOK/);
  expect(stderr).toContain('voidbox secret set HOOK --deployment review');
});

test.each([
  [['trigger', 'none'], 'there is no deployment with this name'],
  [['trigger', 'review', '--at', 'tomorrow'], 'It must be a time'],
  [['trigger', 'review', '--at', '2027-01-01T06:00', '--after', '1s'], '--at and --after contradict each other'],
  [['trigger', 'review', '--ttl', '5'], 'It must be a duration'],
  [['trigger', 'review', '--input', '@none.json'], 'cannot read the input file `none.json`'],
  [['delivery', 'send', 'review', 'push'], 'an event needs a payload'],
  [['delivery', 'send', 'review', 'push', '--body', 'none.json'], 'cannot read the payload `none.json`'],
  [['delivery', 'send', 'review', 'push', '--body', 'one.json', '--times', '101'], '101 events are more than 100'],
  [['delivery', 'send', 'review', 'push', '--body', 'one.json', '--header', 'x'], 'It must be NAME:VALUE'],
  [['delivery', 'send', 'review', 'other', '--body', 'one.json'], 'no webhook with this name'],
])('a mistake is an error of usage: %j', async (words, message) => {
  const { code, stderr } = await type(...words);
  expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
});
