/** Tests with a real stack that an open connection of the HTTP API counts as its use. */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { findApiSocket, locateApiSocket } from '../../client/embedded/api-socket.ts';
import { logsDir, stackLockFile } from '../../client/embedded/stack-info.ts';
import { stopStack } from '../../client/embedded/stack.ts';
import { type Environment, readEnvironment } from '../../setup/environment.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { resolveStackPieces } from '../../setup/resolve.ts';
import { SECOND_LOOK_MS } from './idle-watch.ts';

const IDLE_LIMIT_MS = 3_000;
/** The watch of an unused stack looks once in the limit, and again after a pause. */
const STOPS_WITHIN_MS = 2 * IDLE_LIMIT_MS + SECOND_LOOK_MS;
/** The API waits longer for the body of a request. */
const HELD_MS = STOPS_WITHIN_MS + 5_000;

let env: Environment;
let supervisor: ChildProcess;

beforeEach(async () => {
  const real = readEnvironment();
  const pieces = await resolveStackPieces(real, { install: true });
  env = readEnvironment({ ...real.variables, VOIDBOX_STATE_DIR: mkdtempSync(join(tmpdir(), 'voidbox-api-use-')) });
  mkdirSync(logsDir(env.stateDir), { recursive: true, mode: 0o700 });
  const script = join(findPackageRoot(), 'dist/workers/embedded/supervisor.js');
  const options = {
    'state-dir': env.stateDir,
    'cache-dir': env.cacheDir,
    build: 'of-the-test',
    pieces: JSON.stringify(pieces),
    'idle-limit-ms': String(IDLE_LIMIT_MS),
  };
  const texts = Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]);
  const lock = ['lock', '--file', stackLockFile(env.stateDir), '--'];
  const log = openSync(join(logsDir(env.stateDir), 'test.log'), 'a');
  supervisor = spawn(pieces.keeper, [...lock, process.execPath, script, ...texts], {
    stdio: ['ignore', log, log],
    env: { ...real.variables, USER: 'test' },
  });
  closeSync(log);
});

afterEach(async () => {
  await stopStack(env);
  if (hasEnded()) return rmSync(env.stateDir, { recursive: true, force: true });
  supervisor.kill('SIGKILL');
  throw new Error(`the supervisor did not stop, so ${env.stateDir} stays`);
});

function hasEnded(): boolean {
  return supervisor.exitCode !== null || supervisor.signalCode !== null;
}

/** Opens a connection whose request does not end. */
function hold(): Socket {
  const socket = connect(locateApiSocket(env.stateDir)).on('error', () => undefined);
  const head = 'POST /api/v1/runs HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n';
  socket.write(`${head}[`);
  return socket;
}

test(
  'an open connection of the API keeps the stack up, and the stack ends after it',
  { timeout: 120_000 },
  async () => {
    await expect.poll(() => findApiSocket(env.stateDir), { timeout: 30_000, interval: 20 }).not.toBeNull();
    const socket = hold();
    try {
      let isClosed = false;
      socket.once('close', () => (isClosed = true));
      const begun = Date.now();
      await expect
        .poll(() => (hasEnded() || isClosed ? 'ended' : Date.now() - begun > HELD_MS ? 'held' : 'open'), {
          timeout: 2 * HELD_MS,
        })
        .not.toBe('open');
      expect([hasEnded(), isClosed]).toEqual([false, false]);
    } finally {
      socket.destroy();
    }
    await expect.poll(hasEnded, { timeout: STOPS_WITHIN_MS + 20_000 }).toBe(true);
    expect(supervisor.exitCode).toBe(0);
  },
);
