/** Uploads with the real stack: a client on another machine, the owner's or a token's, starts runs that mount them. */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type ClientRequest, startForClient } from '../../app/start/start-upload.ts';
import { startRun } from '../../client/runs/runs.ts';
import { compileText } from '../../domain/language/load.ts';
import { toWire } from '../../domain/plan/wire.ts';
import { createApiMachine } from '../../server/machine.ts';
import { readEnvironment } from '../../setup/environment.ts';
import type { TokenRow } from '../../store/access.ts';
import { openUploads } from '../../store/open-uploads.ts';
import { runDir } from '../../store/state-folder.ts';
import { writeTar } from '../../tar/write.ts';
import { type Rig, until } from './rig.ts';
import { useRig } from './shared-rig.ts';

const theRig = useRig();

const SCRIPT = 'cat /data/note; touch /data/new 2>/dev/null && echo written || echo read-only';
const specOf = (name: string, host: string, mode = 'ro'): string => `api_version: v1
kind: workflow
name: ${name}
sandbox:
  memory_mb: 256
  mounts: [{ host: "${host}", guest: /data, mode: ${mode} }]
workflow:
  steps:
    - name: read
      run: { program: sh, args: [-c, "${SCRIPT}"] }
`;

interface Answer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

function call(rig: Rig, path: string, method = 'GET', body?: Uint8Array | object): Promise<Answer> {
  const isJson = body !== undefined && !(body instanceof Uint8Array);
  return new Promise((resolve, reject) => {
    const sent = request({
      socketPath: join(rig.stateDir, 'api.sock'),
      path: `/api/v1/${path}`,
      method,
      agent: false,
      headers: isJson ? { 'content-type': 'application/json' } : {},
    });
    sent.on('error', reject).on('response', (response: IncomingMessage) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part: string) => (text += part));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body: JSON.parse(text) as Answer['body'] }));
    });
    sent.end(body === undefined ? undefined : isJson ? JSON.stringify(body) : body);
  });
}

/** Uploads a folder with the file `note`. @returns the hash */
async function upload(rig: Rig, note: string): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of writeTar([{ kind: 'file', path: 'note', mode: 0o644, body: Buffer.from(note) }]))
    parts.push(part);
  const bytes = Buffer.concat(parts);
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  expect(await call(rig, `blobs/${sha256}`, 'PUT', bytes)).toEqual({
    status: 201,
    body: { sha256, sizeBytes: bytes.length },
  });
  return sha256;
}

async function endOf(rig: Rig, runId: string): Promise<Answer['body']> {
  await until(`the admission of ${runId}`, 30_000, async () => (await call(rig, `runs/${runId}`)).status === 200);
  await until(
    `the end of ${runId}`,
    120_000,
    async () => (await call(rig, `runs/${runId}/result?wait=20`)).status === 200,
  );
  return (await call(rig, `runs/${runId}/result`)).body;
}

test('a run mounts an upload of the owner, and prune deletes the files with the run', async () => {
  const rig = theRig();
  expect((await rig.cli('up')).code).toBe(0);
  const data = await upload(rig, 'a note of another machine\n');
  const body = { spec: specOf('of-the-owner', './data'), uploads: { data }, runId: 'of-the-owner' };
  expect(await call(rig, 'runs', 'POST', body)).toMatchObject({ status: 201 });
  expect(await endOf(rig, 'of-the-owner')).toMatchObject({
    state: 'succeeded',
    outputText: 'a note of another machine\nread-only\n',
  });
  const folder = join(runDir(rig.stateDir, 'of-the-owner'), 'uploads');
  expect(existsSync(folder)).toBe(true);
  expect((await rig.cli('prune', '--older-than', '0s')).code).toBe(0);
  expect(existsSync(folder)).toBe(false);
});

test('a run of a token mounts its upload, and the worker refuses it everything else', async () => {
  const rig = theRig();
  mkdirSync(join(rig.specDir, 'shared'), { recursive: true });
  expect((await rig.cli('up', '--allow-mounts', join(rig.specDir, 'shared'))).code).toBe(0);
  const machine = createApiMachine(readEnvironment(rig.env), () => undefined);
  const token: TokenRow = {
    name: 'ci',
    scopes: ['run'],
    runs: [],
    groups: [],
    allowGit: [],
    createdAtMs: 0,
    expiresAtMs: null,
    lastUsedAtMs: null,
    revokedAtMs: null,
  };
  const start = (runId: string, plan: unknown, uploads: ClientRequest['uploads']): Promise<unknown> =>
    startForClient(
      {
        spec: null,
        plan,
        baseDir: null,
        uploads,
        params: {},
        input: null,
        runId,
        mock: null,
        mockAgents: false,
        variables: {},
        allowMounts: [],
        allowGit: [],
      },
      { kind: 'token', token },
      { uploads: openUploads(rig), onProgress: () => undefined },
      machine,
    );
  const planOf = (host: string, mode?: string) =>
    toWire(compileText(specOf('of-a-token', host, mode), 'x', { baseDir: '/home/ada' }).plan!);

  // The plan names a folder of the machine of the client.
  const data = await upload(rig, 'a note of a token\n');
  await start('of-a-token', planOf('/home/ada/data'), { '/home/ada/data': data });
  expect(await endOf(rig, 'of-a-token')).toMatchObject({
    state: 'succeeded',
    outputText: 'a note of a token\nread-only\n',
  });
  await expect(start('refused', planOf('/etc'), {})).rejects.toMatchObject({ code: 'admit/mount-refused' });
  expect(existsSync(runDir(rig.stateDir, 'refused'))).toBe(false);

  // A start that skipped the checks of the service: admission reads the starter from the state folder.
  const { marks } = await machine.stores();
  const mark = JSON.parse(readFileSync(join(runDir(rig.stateDir, 'of-a-token'), 'records', 'client.json'), 'utf8')) as {
    readonly baseDir: string;
  };
  expect(mark).toMatchObject({ starter: { kind: 'token', name: 'ci' } });
  const client = (await machine.stackLink!())!.client();
  const refused = [
    ['etc', planOf('/etc')],
    ['shared', planOf(join(rig.specDir, 'shared'))],
    ['writable', planOf(mark.baseDir, 'rw')],
    ['above', planOf(join(mark.baseDir, '..'))],
  ] as const;
  for (const [runId, plan] of refused) {
    await marks.put(runId, 'client', mark);
    await startRun(client, { runId, request: { plan }, summary: 'a forged start' });
  }
  for (const [runId] of refused)
    expect(await endOf(rig, runId), runId).toMatchObject({ state: 'failed', failure: { code: 'admit/mount-refused' } });
});
