/**
 * The unmodified command lines of Codex and Claude ask a model by https through the door's proxy, as they ask their own servers. A
 * service of this host stands for a server of the internet, which the proxy takes by its name too; `no_proxy` leaves it out.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { startFakeModel } from '../../bench/fake-model/fake-model.ts';
import { LLM_AUTHORITY, LLM_CERTIFICATE, LLM_KEY } from '../rig/servers/llm-certificate.ts';
import { Rig } from './rig.ts';

const KEYS = { OPENAI_API_KEY: 'sk-behind-the-proxy', ANTHROPIC_API_KEY: 'sk-ant-behind-the-proxy' };
const AUTHORITY = '/srv/authority/authority.pem';

interface Asker {
  readonly provider: 'codex' | 'claude';
  readonly llm: (port: number) => string;
  /** The variable that names the trusted authority to its command line. */
  readonly trust: string;
  readonly keyOf: (headers: Readonly<Record<string, unknown>>) => unknown;
  readonly key: string;
}

const ASKERS: readonly Asker[] = [
  {
    provider: 'codex',
    llm: (port) => `{ provider: codex, model: gpt-5, base_url: "https://127.0.0.1:${port}/v1" }`,
    trust: 'SSL_CERT_FILE',
    keyOf: (headers) => headers['authorization'],
    key: `Bearer ${KEYS.OPENAI_API_KEY}`,
  },
  {
    provider: 'claude',
    llm: (port) => `{ provider: claude, base_url: "https://127.0.0.1:${port}" }`,
    trust: 'NODE_EXTRA_CA_CERTS',
    keyOf: (headers) => headers['x-api-key'],
    key: KEYS.ANTHROPIC_API_KEY,
  },
];

const spec = ({ llm, trust }: Asker, port: number): string => `api_version: v1
kind: agent
name: one
llm: ${llm(port)}
sandbox:
  env: { no_proxy: localhost, NO_PROXY: localhost, ${trust}: ${AUTHORITY} }
  mounts: [{ host: ./authority, guest: /srv/authority }]
agent: { prompt: Run the command and answer. }
`;

test.each(ASKERS)('$provider asks its model through a tunnel of the proxy, by TLS from end to end', async (asker) => {
  await using model = await startFakeModel(
    ({ turn }) => (turn === 0 ? { run: 'echo "by $https_proxy, not $no_proxy"' } : { say: 'through the tunnel' }),
    { key: LLM_KEY, cert: LLM_CERTIFICATE },
  );
  await using rig = new Rig(KEYS);
  mkdirSync(join(rig.specDir, 'authority'));
  writeFileSync(join(rig.specDir, 'authority', 'authority.pem'), LLM_AUTHORITY);
  const run = await rig.cli('run', rig.spec('spec.yaml', spec(asker, model.port)), '--run-id', 'one', '--json');
  expect(run.code, run.stdout + run.stderr).toBe(0);
  expect(JSON.parse(run.stdout)).toMatchObject({ outputText: 'through the tunnel' });

  // Its server speaks only TLS.
  const asked = model.requests.filter(({ path }) => /\/(?:messages|responses)$/.test(path));
  expect(asked.length).toBeGreaterThanOrEqual(2);
  for (const { headers } of asked) expect(asker.keyOf(headers)).toBe(asker.key);
  expect(asked.at(-1)!.body).toContain('by http://127.0.0.1:3128, not localhost');

  const ends = (await rig.events('one')).flatMap(({ body }) => (body.type === 'network' ? [body] : []));
  expect(ends, 'none went to the service past the proxy, and none was refused').toEqual(
    ends.map((end) => expect.objectContaining({ ...end, kind: 'closed', host: 'llm', port: model.port })),
  );
  const sent = ends.reduce((sum, end) => sum + (end.kind === 'closed' ? end.sentBytes : 0), 0);
  const received = ends.reduce((sum, end) => sum + (end.kind === 'closed' ? end.receivedBytes : 0), 0);
  expect(sent, 'bodies of its requests').toBeGreaterThan(asked.reduce((sum, { body }) => sum + body.length, 0));
  expect(received).toBeGreaterThan(1_000);
  await rig.assertNothingLeft();
});

test('a server of an authority without trust gets no request, and the stage fails with that error', async () => {
  await using model = await startFakeModel(() => ({ say: 'unheard' }), { key: LLM_KEY, cert: LLM_CERTIFICATE });
  await using rig = new Rig(KEYS);
  mkdirSync(join(rig.specDir, 'authority'));
  const [codex] = ASKERS;
  const text = spec({ ...codex!, trust: 'NOBODY' }, model.port);
  const run = await rig.cli('run', rig.spec('spec.yaml', text), '--run-id', 'one', '--json');
  expect(run.code, run.stdout).toBe(1);
  expect(JSON.parse(run.stdout)).toMatchObject({ failure: { code: 'agent/api-error' } });
  expect(model.requests).toEqual([]);
  await rig.assertNothingLeft();
});
