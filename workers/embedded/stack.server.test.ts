/** The embedded stack as processes: started on demand, alone in its folder, gone with its supervisor. */
import {
  chmodSync,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { readEnvironment, type Environment } from '../../setup/environment.ts';
import type { StackPieces } from '../../setup/pieces/host-pieces.ts';
import { resolveStackPieces } from '../../setup/resolve.ts';
import { openStores } from '../../store/open-stores.ts';
import { napSpec } from '../../test/rig/runs/sleeping-run.ts';
import { makeStateFolder } from '../../test/rig/runs/state-folder.ts';
import { connectRuns } from '../../client/temporal/connect.ts';
import { awaitOutcome, startRun } from '../../client/runs/runs.ts';
import { createEmbeddedAddress } from '../../client/temporal/temporal-address.ts';
import { ensureStack, readStack, stopStack, type StackInfo } from '../../client/embedded/stack.ts';
import { socketFile } from '../../client/embedded/control.ts';
import { askStack } from '../../client/embedded/control-client.ts';
import { stackFile } from '../../client/embedded/stack-info.ts';

let env: Environment;
/** Folders below the test's own, whose stacks end before it is removed. */
let deeper: Environment[];
let pieces: StackPieces;

beforeEach(async () => {
  deeper = [];
  const real = readEnvironment();
  pieces = await resolveStackPieces(real, { install: true });
  env = readEnvironment({ ...real.variables, VOIDBOX_STATE_DIR: mkdtempSync(join(tmpdir(), 'voidbox-stack-')) });
});

afterEach(async () => {
  for (const one of [env, ...deeper]) await stopStack(one);
  rmSync(env.stateDir, { recursive: true, force: true });
});

const start = (): Promise<StackInfo> => ensureStack(env, { pieces });

function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

async function until(what: string, condition: () => boolean | Promise<boolean>, limitMs = 40_000): Promise<void> {
  const end = Date.now() + limitMs;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`waited ${limitMs} ms for ${what}`);
    await sleep(50);
  }
}

test('two clients at once get one stack, which ends with all its processes', { timeout: 120_000 }, async () => {
  const [first, second] = await Promise.all([start(), start()]);
  expect(second.supervisorPid).toBe(first.supervisorPid);
  const processes = [first.supervisorPid, first.serverPid, first.workerPid];
  expect(processes.map(isAlive)).toEqual([true, true, true]);
  expect(await start()).toEqual(first);
  expect(await stopStack(env)).toBe(true);
  await until('the processes to end', () => !processes.some(isAlive));
  expect(await readStack(env)).toBeNull();
  expect(await stopStack(env)).toBe(false);
});

test(
  'nothing of it survives a kill of the supervisor, and the next stack takes up its runs',
  { timeout: 180_000 },
  async () => {
    const first = await start();
    const runs = await connectRuns(createEmbeddedAddress(first.address));
    await startRun(runs.client, { runId: 'taken-up', request: { spec: napSpec(4) }, summary: 'nap' });
    const { index, reader } = await openStores(env);
    const readTypes = async (): Promise<readonly string[]> => {
      const types: string[] = [];
      if (await index.has('taken-up')) for await (const { body } of reader.read('taken-up', 0)) types.push(body.type);
      return types;
    };
    // A run has a folder before it is admitted, and only an admitted run is resumed.
    await until('the run to be admitted', async () => (await readTypes()).includes('run-admitted'));
    process.kill(first.supervisorPid, 'SIGKILL');
    await until(
      'the processes to end',
      () => ![first.supervisorPid, first.serverPid, first.workerPid].some(isAlive),
      10_000,
    );
    await runs.close();
    const unfinished = `${stackFile(env.stateDir)}.${first.supervisorPid}`;
    writeFileSync(unfinished, '{');

    const second = await start();
    expect(existsSync(unfinished)).toBe(false);
    expect(second.supervisorPid).not.toBe(first.supervisorPid);
    const again = await connectRuns(createEmbeddedAddress(second.address));
    expect((await awaitOutcome(again.client, 'taken-up')).state).toBe('succeeded');
    await again.close();
    const types = await readTypes();
    expect(types).toContain('run-resumed');
    expect(types.at(-1)).toBe('run-finished');
  },
);

test('a killed worker and a killed server are started again', { timeout: 180_000 }, async () => {
  const first = await start();
  process.kill(first.workerPid, 'SIGKILL');
  await until('another worker', () => current().workerPid !== first.workerPid);
  const before = await connectRuns(createEmbeddedAddress(current().address));
  await startRun(before.client, { runId: 'meanwhile', request: { spec: napSpec(3) }, summary: 'nap' });
  const { index } = await openStores(env);
  await until('the run to be admitted', () => index.has('meanwhile'));
  await before.close();
  process.kill(first.serverPid, 'SIGKILL');
  await until('another server', () => current().serverPid !== first.serverPid);
  await until('the server to answer', async () => (await readStack(env)) !== null);
  const info = current();
  expect(info.supervisorPid).toBe(first.supervisorPid);
  const runs = await connectRuns(createEmbeddedAddress(info.address));
  await startRun(runs.client, { runId: 'after', request: { spec: napSpec(0) }, summary: 'nap' });
  expect((await awaitOutcome(runs.client, 'after')).state).toBe('succeeded');
  expect((await awaitOutcome(runs.client, 'meanwhile')).state).toBe('succeeded');
  await runs.close();
});

test('a server that does not start is given up within seconds, with its last words', { timeout: 300_000 }, async () => {
  const temporalCli = join(env.stateDir, 'temporal');
  writeFileSync(temporalCli, '#!/bin/sh\necho "the database is of a newer version" >&2\nexit 1\n', { mode: 0o755 });
  const startedAtMs = Date.now();
  const attempts = await Promise.allSettled([1, 2].map(() => ensureStack(env, { pieces: { ...pieces, temporalCli } })));
  expect(Date.now() - startedAtMs).toBeLessThan(45_000);
  for (const attempt of attempts) {
    expect(attempt).toMatchObject({
      reason: {
        message: expect.stringMatching(
          /Temporal server ended 3 times while it started \(exit code 1\)[^]*the database is of a newer version/,
        ) as string,
        remedy: `Its logs are in ${join(env.stateDir, 'logs')}.`,
      },
    });
  }
  expect(await readStack(env)).toBeNull();
});

describe('what stack.json says is not believed', () => {
  test.each<[string, (info: StackInfo) => string]>([
    ['garbage', () => '{"address":'],
    ['the pid of another process', (info) => JSON.stringify({ ...info, supervisorPid: process.pid })],
    [
      'another build and another address',
      (info) => JSON.stringify({ ...info, build: '0.0.0-older', address: '127.0.0.1:1' }),
    ],
    ['other shapes', () => '[{"supervisorPid":"1"}]'],
  ])('%s', { timeout: 120_000 }, async (_what, textOf) => {
    const first = await start();
    writeFileSync(stackFile(env.stateDir), textOf(first));
    expect(await readStack(env)).toEqual(first);
    // Asked, the supervisor looks at its file.
    expect(current()).toEqual(first);
    writeFileSync(stackFile(env.stateDir), textOf(first));
    expect(await start()).toEqual(first);
    writeFileSync(stackFile(env.stateDir), textOf(first));
    expect(await stopStack(env)).toBe(true);
    expect(isAlive(first.supervisorPid)).toBe(false);
  });

  test("another folder's: what is done here does not reach the stack there", { timeout: 180_000 }, async () => {
    const there = await start();
    const here = readEnvironment({
      ...env.variables,
      VOIDBOX_STATE_DIR: mkdtempSync(join(tmpdir(), 'voidbox-stack-')),
    });
    onTestFinished(async () => {
      await stopStack(here);
      rmSync(here.stateDir, { recursive: true, force: true });
    });
    makeStateFolder(here.stateDir);
    copyFileSync(stackFile(env.stateDir), stackFile(here.stateDir));
    linkSync(socketFile(env.stateDir), socketFile(here.stateDir));
    expect(await readStack(here)).toBeNull();
    expect(await stopStack(here)).toBe(false);
    const mine = await ensureStack(here, { pieces });
    expect(mine.address).not.toBe(there.address);
    expect(await stopStack(here)).toBe(true);
    expect(await readStack(env)).toEqual(there);
  });
});

describe('the socket', () => {
  test(
    'is open only to its user, and is created again after it was removed or replaced',
    { timeout: 120_000 },
    async () => {
      const first = await start();
      const socket = socketFile(env.stateDir);
      expect(statSync(socket).mode & 0o777).toBe(0o600);
      rmSync(socket);
      expect(await readStack(env)).toEqual(first);
      rmSync(socket);
      expect(await start()).toEqual(first);
      rmSync(socket);
      const stranger = createServer((connection) => connection.end('{"voidbox":"stack","phase":"up"}\n')).listen(
        socket,
      );
      onTestFinished(() => void stranger.close());
      expect(await start()).toEqual(first);
      await until(
        "the socket to be the stack's again",
        async () => (await askStack(env.stateDir, 'status')).kind === 'answer',
        5_000,
      );
      rmSync(socket);
      expect(await stopStack(env)).toBe(true);
      expect(isAlive(first.supervisorPid)).toBe(false);
    },
  );

  test("works in a folder whose path is longer than a socket's path may be", { timeout: 120_000 }, async () => {
    const stateDir = join(env.stateDir, 'deep'.repeat(30), 'deeper'.repeat(10));
    const deep = readEnvironment({ ...env.variables, VOIDBOX_STATE_DIR: stateDir });
    deeper.push(deep);
    const info = await ensureStack(deep, { pieces });
    expect(await askStack(stateDir, 'status')).toMatchObject({ kind: 'answer', answer: { phase: 'up', info } });
  });

  test('accepts valid lines, and disconnects on others', { timeout: 120_000 }, async () => {
    const first = await start();
    for (const text of [
      'GET / HTTP/1.1\r\n\r\n',
      '{"op":"format"}\n',
      `{"op":"${'x'.repeat(10_000)}`,
      '[]\n',
      'null\n',
    ]) {
      const answer = await new Promise<string>((resolve) => {
        let got = '';
        const socket = connect(socketFile(env.stateDir));
        socket.on('data', (part) => (got += part.toString()));
        socket.on('error', () => undefined).on('close', () => resolve(got));
        socket.write(text);
      });
      expect(answer).toBe('');
    }
    expect(await readStack(env)).toEqual(first);
  });
});

/** Node removes the names that it has listed; a stack that runs may add one before the folder itself is removed. */
function removeWhileUsed(folder: string): void {
  for (let tries = 1; ; tries++) {
    try {
      return rmSync(folder, { recursive: true, force: true });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOTEMPTY' || tries === 100) throw error;
    }
  }
}

describe('a stack whose folder', () => {
  test.each<[string, string | null, () => void]>([
    ['was deleted', null, () => removeWhileUsed(env.stateDir)],
    [
      'was moved away and replaced by another one',
      'of another stack',
      () => {
        const aside = `${env.stateDir}-aside`;
        onTestFinished(() => rmSync(aside, { recursive: true, force: true }));
        renameSync(env.stateDir, aside);
        mkdirSync(env.stateDir);
        writeFileSync(stackFile(env.stateDir), 'of another stack');
      },
    ],
  ])(
    '%s ends with all its processes, and does not touch the folder that is there now',
    { timeout: 120_000 },
    async (_what, expected, take) => {
      const { supervisorPid, serverPid, workerPid } = await start();
      const processes = [supervisorPid, serverPid, workerPid];
      onTestFinished(() => {
        if (isAlive(supervisorPid)) process.kill(supervisorPid, 'SIGKILL');
      });
      take();
      await until('the processes to end', () => !processes.some(isAlive));
      const left = existsSync(stackFile(env.stateDir)) ? readFileSync(stackFile(env.stateDir), 'utf8') : null;
      expect(left).toBe(expected);
    },
  );
});

describe('four stacks, one after the other in one folder,', () => {
  /** The findings about one stack. */
  interface Life {
    readonly info: StackInfo;
    readonly said: string;
    /** Days that the server keeps histories: at the start, and after an operator has changed them. */
    readonly days: readonly number[];
    /** Files that others than their user may look into. */
    readonly open: readonly string[];
    readonly files: readonly string[];
  }
  let own: Environment;
  const lives: Life[] = [];

  async function live(saysDays?: number): Promise<void> {
    const said: string[] = [];
    const info = await ensureStack(own, { pieces, onProgress: (line) => said.push(line) });
    const { connection, close } = await connectRuns(createEmbeddedAddress(info.address));
    const { workflowService } = connection;
    const { namespace } = info;
    const ttlOf = async () =>
      (await workflowService.describeNamespace({ namespace })).config?.workflowExecutionRetentionTtl;
    const daysOf = async (): Promise<number> => Number((await ttlOf())?.seconds) / 86_400;
    const days = [await daysOf()];
    if (saysDays !== undefined) {
      const ttl = { seconds: saysDays * 86_400 } as unknown as Awaited<ReturnType<typeof ttlOf>>;
      await workflowService.updateNamespace({ namespace, config: { workflowExecutionRetentionTtl: ttl! } });
      days.push(await daysOf());
    }
    await close();
    const files = readdirSync(own.stateDir);
    const open = files.filter((name) => (statSync(join(own.stateDir, name)).mode & 0o077) !== 0);
    lives.push({ info, said: said.join('\n'), days, open, files });
    await stopStack(own);
  }

  beforeAll(async () => {
    const real = readEnvironment();
    pieces = await resolveStackPieces(real, { install: true });
    own = readEnvironment({ ...real.variables, VOIDBOX_STATE_DIR: mkdtempSync(join(tmpdir(), 'voidbox-stack-')) });
    chmodSync(own.stateDir, 0o755);
    makeStateFolder(own.stateDir);
    writeFileSync(join(own.stateDir, 'skills.json'), '{"paths":[]}', { mode: 0o644 });
    await live(1);
    // As builds before this one left it.
    for (const name of ['temporal.db', 'host-id']) chmodSync(join(own.stateDir, name), 0o644);
    await live(90);
    const { address, uiUrl } = lives[1]!.info;
    const strangers = [address, new URL(uiUrl).host].map((at) =>
      createServer().listen(Number(at.split(':')[1]), '127.0.0.1'),
    );
    try {
      await live();
    } finally {
      for (const stranger of strangers) stranger.close();
    }
    await live();
  }, 240_000);

  afterAll(async () => {
    await stopStack(own);
    rmSync(own.stateDir, { recursive: true, force: true });
  });

  test('keep the ports of the previous stack; a taken port is replaced and reported', () => {
    const [first, second, moved, last] = lives.map(({ info }) => info) as [StackInfo, StackInfo, StackInfo, StackInfo];
    const [grpc, ui] = [first.address, first.uiUrl];
    expect(second).toMatchObject({ address: grpc, uiUrl: ui });
    expect(moved.address).not.toBe(grpc);
    expect(moved.uiUrl).not.toBe(ui);
    expect(lives[2]!.said).toContain(
      `gRPC port ${grpc.split(':')[1]} is taken by another program, now ${moved.address}; UI port ${new URL(ui).port} is taken by another program, now ${moved.uiUrl}`,
    );
    // From then on these are the ones that are known.
    expect(last).toMatchObject({ address: moved.address, uiUrl: moved.uiUrl });
  });

  test('keep histories for 30 days, in an older database too, and longer if an operator sets more', () => {
    expect(lives.map(({ days }) => days)).toEqual([[30, 1], [30, 90], [90], [90]]);
  });

  test('keep their files private to their user in a folder that others can read, and make older files private', () => {
    for (const { open } of lives.slice(1)) expect(open).toEqual([]);
    expect(lives[1]!.files).toEqual(
      expect.arrayContaining(['temporal.db', 'temporal.db-wal', 'temporal.db-shm', 'stack.json', 'logs']),
    );
  });
});

test('a supervisor that is stopped is seen, and ends when it shall', { timeout: 120_000 }, async () => {
  const first = await start();
  process.kill(first.supervisorPid, 'SIGSTOP');
  expect(await readStack(env)).toEqual(first);
  expect(await start()).toEqual(first);
  writeFileSync(stackFile(env.stateDir), 'garbage');
  expect(await stopStack(env)).toBe(true);
  await until('the processes to end', () => ![first.supervisorPid, first.serverPid, first.workerPid].some(isAlive));
});

test('a stack starts in a folder whose name has special characters of a URI', { timeout: 120_000 }, async () => {
  const stateDir = join(env.stateDir, 'a #b?c%41&mode=memory');
  const odd = readEnvironment({ ...env.variables, VOIDBOX_STATE_DIR: stateDir });
  deeper.push(odd);
  const { address } = await ensureStack(odd, { pieces });
  const runs = await connectRuns(createEmbeddedAddress(address));
  await startRun(runs.client, { runId: 'odd', request: { spec: napSpec(0) }, summary: 'nap' });
  expect((await awaitOutcome(runs.client, 'odd')).state).toBe('succeeded');
  await runs.close();
  expect(readdirSync(stateDir)).toContain('temporal.db');
});

const current = (): StackInfo => JSON.parse(readFileSync(stackFile(env.stateDir), 'utf8')) as StackInfo;
