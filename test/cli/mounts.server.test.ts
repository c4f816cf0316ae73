/**
 * A permission to mount goes from the command line over the stack's settings to its worker's admission, and no other
 * way.
 */
import { spawn } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { NativeConnection, Worker } from '@temporalio/worker';
import type { Attack } from '../rig/runs/attacker-workflow.ts';
import { connectRuns } from '../../client/temporal/connect.ts';
import type { StackInfo } from '../../client/embedded/stack.ts';
import { awaitOutcome } from '../../client/runs/runs.ts';
import { computeStartProof } from '../../domain/security/start-proof.ts';
import { openStores } from '../../store/open-stores.ts';
import { createEmbeddedAddress } from '../../client/temporal/temporal-address.ts';

const BIN = fileURLToPath(new URL('../../bin/voidbox.js', import.meta.url));

let dir: string;
let spec: string;
beforeAll(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-mounts-server-')));
  for (const name of ['spec', 'data/in', 'more']) mkdirSync(join(dir, name), { recursive: true });
  spec = `kind: workflow\nname: m\nsandbox: { mode: mock, mounts: [{ host: ${dir}/data/in, guest: /data }] }\nworkflow:\n  steps:\n    - { name: a, run: { program: echo, args: [hi] } }\n`;
  writeFileSync(join(dir, 'spec/m.yaml'), spec);
});
afterAll(async () => {
  await type('down');
  rmSync(dir, { recursive: true, force: true });
});

interface Typed {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

const type = (...args: readonly string[]): Promise<Typed> => typeIn('spec', ...args);

function typeIn(folder: string, ...args: readonly string[]): Promise<Typed> {
  const env: NodeJS.ProcessEnv = { ...process.env, VOIDBOX_STATE_DIR: join(dir, 'state') };
  for (const name of ['TEMPORAL_ADDRESS', 'TEMPORAL_PROFILE', 'TEMPORAL_CONFIG_FILE', 'npm_command']) delete env[name];
  const child = spawn(process.execPath, [BIN, ...args], {
    cwd: join(dir, folder),
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 110_000,
  });
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  return new Promise((resolve) => child.once('close', (code) => resolve({ code, stdout, stderr })));
}

interface Ps {
  readonly stack: StackInfo | null;
  readonly allowedMounts: readonly string[];
}

async function ps(): Promise<Ps> {
  return JSON.parse((await type('ps', '--json')).stdout) as Ps;
}

/** Any account of this machine that reaches the server can start a run in this way. */
async function failureOfClient(
  runId: string,
  request: unknown,
): Promise<{ code: string | undefined; message: string }> {
  const { stack } = await ps();
  const runs = await connectRuns(createEmbeddedAddress(stack!.address));
  try {
    await runs.client.workflow.start('voidboxRun', { workflowId: runId, taskQueue: 'voidbox', args: [request] });
    const { failure } = await awaitOutcome(runs.client, runId);
    return { code: failure?.code, message: failure?.message ?? '' };
  } finally {
    await runs.close();
  }
}

test(
  'what `run` allows counts for its run on a running stack, and no client allows itself anything',
  { timeout: 240_000 },
  async () => {
    expect(await type('run', 'm.yaml')).toMatchObject({ code: 3, stdout: '' });
    const first = await type('run', 'm.yaml', '--allow-mounts', '../data');
    expect(first).toMatchObject({ code: 0, stdout: 'hi\n' });
    expect((await ps()).allowedMounts).toEqual([]);
    // The permission belongs to the run: the next run on the same stack needs it again, and a retry keeps it.
    expect(await type('run', 'm.yaml')).toMatchObject({ code: 3, stdout: '' });
    expect(await type('run', 'm.yaml', '--allow-mounts', '../data')).toMatchObject({ code: 0, stdout: 'hi\n' });
    writeFileSync(join(dir, 'spec/f.yaml'), spec.replace('program: echo', 'program: "false"'));
    expect((await type('run', 'f.yaml', '--allow-mounts', '../data', '--run-id', 'fails')).code).toBe(1);
    expect((await type('retry', 'fails')).code).toBe(1);

    for (const [runId, request] of Object.entries({
      'by-a-client': { spec },
      'asks-for-it': {
        spec,
        allowMounts: [dir],
        allowedRoots: [dir],
        baseDir: dir,
        starter: { kind: 'owner', baseDir: dir, allow: [dir], allowGit: [] },
        starters: 'any',
        mark: { baseDir: dir, allow: [dir] },
      },
    }))
      expect(await failureOfClient(runId, request)).toEqual({
        code: expect.stringMatching(/^admit\//),
        message: expect.stringMatching(/refused|takes one object/),
      });
  },
);

test('two starts of one id at once give one run, with the mount of its own folder', { timeout: 240_000 }, async () => {
  const folders = ['one', 'two'];
  for (const folder of folders) {
    mkdirSync(join(dir, folder, 'data'), { recursive: true });
    const text = `kind: workflow\nname: m\nsandbox: { mode: mock, mounts: [{ host: data, guest: /data }] }\nworkflow:\n  steps:\n    - { name: a, run: { program: echo, args: [${folder}] } }\n`;
    writeFileSync(join(dir, folder, 'm.yaml'), text);
  }
  await type('up');
  for (let round = 0; round < 4; round += 1) {
    const runId = `at-once-${round}`;
    const typed = await Promise.all(folders.map((folder) => typeIn(folder, 'run', 'm.yaml', '--run-id', runId)));
    const winner = typed.findIndex(({ code }) => code === 0);
    expect(typed[winner]).toMatchObject({ code: 0, stdout: `${folders[winner]}\n` });
    expect(typed[1 - winner]).toMatchObject({ code: 2, stdout: '' });
    expect(typed[1 - winner]?.stderr).toContain(`run ${runId} already exists`);
  }
});

test(
  'a run that another client starts under the id of a start does not get its permissions',
  { timeout: 240_000 },
  async () => {
    await type('up');
    const stores = await openStores({ stateDir: join(dir, 'state') });
    try {
      const refused = { code: 'admit/mount-refused', message: expect.stringContaining('refused') as string };
      // The owner's start has written its files, and another client takes the id before it.
      await stores.marks.put('taken', 'client', { baseDir: dir, allow: [dir], startKey: 'secret' });
      await stores.marks.put('proven', 'client', { baseDir: dir, allow: [dir], startKey: 'secret' });
      const prove = (key: string, runId: string): string =>
        computeStartProof((by, text) => createHmac('sha256', by).update(text).digest('hex'), key, runId, { spec });
      expect(await failureOfClient('taken', { spec, proof: prove('guess', 'taken') })).toEqual(refused);
      expect(await failureOfClient('proven', { spec, proof: prove('secret', 'proven') })).toEqual({
        code: undefined,
        message: '',
      });
    } finally {
      await stores.close();
    }
  },
);

test(
  'a run of a foreign worker that claims to be of the owner is no run of the owner',
  { timeout: 240_000 },
  async () => {
    await type('up');
    const { stack } = await ps();
    const runs = await connectRuns(createEmbeddedAddress(stack!.address));
    const connection = await NativeConnection.connect({ address: stack!.address });
    const evil = await Worker.create({
      connection,
      taskQueue: 'evil',
      workflowsPath: fileURLToPath(new URL('../rig/runs/attacker-workflow.ts', import.meta.url)),
    });
    const owner = { kind: 'owner', baseDir: dir, allow: [dir], allowGit: [] };
    const attack = (runId: string, text: string): Promise<readonly (string | null)[]> => {
      const argument = { runId, behaviour: 1, spec: text, starter: owner, starters: 'any', allow: [dir], baseDir: dir };
      const args: [Attack] = [{ taskQueue: 'voidbox', calls: [{ activity: 'admit', argument }] }];
      return runs.client.workflow.execute('voidboxRun', {
        workflowId: runId,
        taskQueue: 'evil',
        args,
        memo: { starter: owner },
        workflowExecutionTimeout: 60_000,
      });
    };
    try {
      const outcomes = await evil.runUntil(
        Promise.all([attack('claims', spec), attack('claims-nothing', spec.replace(/, mounts: \[.*\]/, ''))]),
      );
      // The same request without the mount is admitted: the refusal is for the mount and not for the caller.
      expect(outcomes).toEqual([[expect.stringMatching(/^admit\/mount-refused: .*is refused/)], [null]]);
    } finally {
      await connection.close();
      await runs.close();
    }
  },
);

test('`up` allows other folders by another worker, and takes them back', { timeout: 240_000 }, async () => {
  const up = await type('up', '--allow-mounts', '../more', '../data/in', '--json');
  expect(JSON.parse(up.stdout)).toMatchObject({ allowedMounts: [join(dir, 'data/in'), join(dir, 'more')] });
  expect(up.stderr).toContain('step machines or allowed mounts have changed');
  expect(await type('run', 'm.yaml')).toMatchObject({ code: 0, stdout: 'hi\n' });
  expect((await type('up', '--allow-mounts', '../gone')).code).toBe(2);
  const kept = await type('up');
  expect(kept.stdout).toContain(`mounts      runs may mount from ${dir}/data/in, ${dir}/more\n`);
  const none = await type('up', '--no-allow-mounts');
  expect([none.code, none.stdout]).toEqual([0, expect.not.stringContaining('mounts  ')]);
  expect(await type('run', 'm.yaml')).toMatchObject({ code: 3, stdout: '' });
  // The worker refuses it, too: this client checks nothing before it starts the run.
  expect((await failureOfClient('after', { spec })).code).toMatch(/^admit\//);
  expect(JSON.parse(readFileSync(join(dir, 'state/mounts.json'), 'utf8'))).toEqual({ folders: [] });
});
