/** The database of a stack: started when a command asks for it, and gone with the stack. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { DatabaseState } from '../../client/embedded/control.ts';
import { askStack } from '../../client/embedded/control-client.ts';
import { ensureStack, readStack, stopStack } from '../../client/embedded/stack.ts';
import { type Environment, readEnvironment } from '../../setup/environment.ts';
import { resolveDatabasePieces, resolveStackPieces } from '../../setup/resolve.ts';

const LONG = { timeout: 60_000 };
let env: Environment;

beforeEach(async () => {
  const real = readEnvironment();
  await resolveDatabasePieces(real, { install: true });
  await resolveStackPieces(real, { install: true });
  env = readEnvironment({ ...real.variables, VOIDBOX_STATE_DIR: mkdtempSync(join(tmpdir(), 'voidbox-database-')) });
}, 300_000);

afterEach(async () => {
  await stopStack(env);
  rmSync(env.stateDir, { recursive: true, force: true });
});

async function askDatabase(): Promise<DatabaseState | null> {
  const reply = await askStack(env.stateDir, 'database');
  return reply.kind === 'answer' ? reply.answer.database : null;
}

function readPostmaster(): number {
  return Number(readFileSync(join(env.stateDir, 'postgres', 'data', 'postmaster.pid'), 'utf8').split('\n')[0]);
}

function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

test('a stack has no database until one is asked for, and ends it when it stops', { timeout: 180_000 }, async () => {
  await ensureStack(env);
  const status = await askStack(env.stateDir, 'status');
  expect(status).toMatchObject({ kind: 'answer', answer: { database: null } });
  expect(existsSync(join(env.stateDir, 'postgres'))).toBe(false);
  const socketDir = join(env.stateDir, 'postgres', 'socket');
  await expect.poll(askDatabase, LONG).toEqual({ socketDir, phase: 'up', reason: null, isDiskFull: false });
  const pid = readPostmaster();
  // Asked again, it is the same one.
  expect(await askDatabase()).toMatchObject({ phase: 'up' });
  expect(readPostmaster()).toBe(pid);
  expect(await stopStack(env)).toBe(true);
  expect(isAlive(pid)).toBe(false);
  expect(existsSync(join(env.stateDir, 'postgres', 'data', 'postmaster.pid'))).toBe(false);
});

test('the database dies with its supervisor, and not with the worker or the server', { timeout: 180_000 }, async () => {
  const stack = await ensureStack(env);
  await expect.poll(askDatabase, LONG).toMatchObject({ phase: 'up' });
  const pid = readPostmaster();
  for (const victim of [stack.serverPid, stack.workerPid]) process.kill(victim, 'SIGKILL');
  await expect.poll(async () => (await readStack(env))?.workerPid ?? stack.workerPid, LONG).not.toBe(stack.workerPid);
  expect(readPostmaster()).toBe(pid);
  expect(isAlive(pid)).toBe(true);
  process.kill(stack.supervisorPid, 'SIGKILL');
  await expect.poll(() => isAlive(pid), LONG).toBe(false);
  await ensureStack(env);
  await expect.poll(askDatabase, LONG).toMatchObject({ phase: 'up' });
});
