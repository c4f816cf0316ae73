import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { readEnvironment } from '../../setup/environment.ts';
import { stopStack } from '../../client/embedded/stack.ts';
import {
  folderId,
  MOST_COMMANDS,
  requestText,
  socketFile,
  type StackAnswer,
  type StackOp,
} from '../../client/embedded/control.ts';
import { askStack } from '../../client/embedded/control-client.ts';
import { openControl } from './control-server.ts';

interface Held {
  readonly stateDir: string;
  readonly asked: StackOp[];
  close(): void;
}

/** A stack of which so many commands are about to make use. `pid`: whose it says that it is. */
async function held(count: number, pid = process.pid): Promise<Held> {
  const stateDir = mkdtempSync(join(tmpdir(), 'voidbox-control-'));
  const asked: StackOp[] = [];
  const answer = (op: StackOp, users: number): StackAnswer => {
    asked.push(op);
    return {
      voidbox: 'stack',
      phase: 'up',
      pid,
      build: 'b',
      folder: folderId(stateDir) ?? '',
      inUse: op === 'yield' && users > 0,
      info: null,
      database: null,
      listen: null,
    };
  };
  const control = await openControl({ stateDir, answer, onProblem: () => undefined });
  const sockets: Socket[] = [];
  let isOpen = true;
  const close = (): void => {
    if (isOpen) control.close();
    isOpen = false;
    for (const socket of sockets) socket.destroy();
  };
  onTestFinished(() => {
    close();
    rmSync(stateDir, { recursive: true });
  });
  for (let index = 0; index < count; index += 1) {
    const socket = connect({ path: socketFile(stateDir) });
    sockets.push(socket);
    socket.write(requestText({ op: 'use', folder: folderId(stateDir) ?? '' }));
    await once(socket, 'data');
  }
  asked.length = 0;
  return { stateDir, asked, close };
}

test('a deleted state folder is reported once, and the control server keeps running', async () => {
  const stateDir = mkdtempSync(join(tmpdir(), 'voidbox-control-'));
  const problems: string[] = [];
  const answer = (): never => {
    throw new Error('nobody asks');
  };
  const control = await openControl({ stateDir, answer, onProblem: (message) => problems.push(message) });
  rmSync(stateDir, { recursive: true });
  await expect.poll(() => problems.length).toBe(1);
  // Long enough for the next looks, which find the same.
  await sleep(1_500);
  control.close();
  expect(problems).toEqual([expect.stringContaining('stack.sock')]);
});

test('a stack that as many commands use as it holds says that it is in use', { timeout: 300_000 }, async () => {
  const { stateDir } = await held(MOST_COMMANDS);
  for (const op of ['yield', 'use', 'status'] as const)
    expect(await askStack(stateDir, op), op).toMatchObject({
      kind: 'answer',
      answer: { phase: 'up', inUse: true, busy: true },
    });
});

test(
  'the control server handles a request if it has one connection less than its limit',
  { timeout: 60_000 },
  async () => {
    const { stateDir, asked } = await held(MOST_COMMANDS - 1);
    const { answer } = (await askStack(stateDir, 'yield')) as { readonly answer: StackAnswer };
    expect([asked, answer.inUse, answer.busy]).toEqual([['yield'], true, undefined]);
  },
);

test('a stack that is busy is stopped all the same', { timeout: 300_000 }, async () => {
  const supervisor = spawn('sleep', ['600']);
  onTestFinished(() => void supervisor.kill('SIGKILL'));
  const { stateDir, close } = await held(MOST_COMMANDS, supervisor.pid);
  const ended = once(supervisor, 'exit').finally(close);
  expect(await stopStack(readEnvironment({ HOME: stateDir, VOIDBOX_STATE_DIR: stateDir }))).toBe(true);
  expect((await ended)[1]).toBe('SIGTERM');
});
