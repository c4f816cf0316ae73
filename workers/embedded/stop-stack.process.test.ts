/** Ending a stack while another command starts the next one. */
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { expect, onTestFinished, test } from 'vitest';
import { readEnvironment } from '../../setup/environment.ts';
import { stopStack } from '../../client/embedded/stack.ts';
import { stackLockFile } from '../../client/embedded/stack-info.ts';

/**
 * Looks like a supervisor to the kernel: it has the script's name and the lock file open. After a stop of the first
 * one, a second follows.
 */
const SUPERVISOR = `
const { openSync } = require('node:fs');
const { spawn } = require('node:child_process');
const [, script, lock, isFirst] = process.argv;
openSync(lock, 'r');
if (isFirst) process.on('SIGTERM', () => {
  const next = spawn(process.execPath, [script, lock], { detached: true, stdio: ['ignore', 'pipe', 'ignore'] });
  next.stdout.once('data', (pid) => process.stdout.write(pid, () => process.exit(0)));
});
process.stdout.write(process.pid + '\\n');
setInterval(() => undefined, 1000);
`;

test(
  'is over with the supervisor that was told to end: the next one is not waited for and not ended',
  { timeout: 90_000 },
  async () => {
    const stateDir = mkdtempSync(join(tmpdir(), 'voidbox-stop-'));
    const left = new Set<number>();
    onTestFinished(() => {
      for (const pid of left) process.kill(pid, 'SIGKILL');
      rmSync(stateDir, { recursive: true });
    });
    const script = join(stateDir, 'embedded/supervisor.js');
    mkdirSync(join(stateDir, 'embedded'));
    writeFileSync(script, SUPERVISOR);
    writeFileSync(stackLockFile(stateDir), '');
    const first = spawn(process.execPath, [script, stackLockFile(stateDir), 'first'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const pids = createInterface({ input: first.stdout })[Symbol.asyncIterator]();
    expect(Number((await pids.next()).value)).toBe(first.pid);

    const startedAtMs = Date.now();
    expect(await stopStack(readEnvironment({ HOME: stateDir, VOIDBOX_STATE_DIR: stateDir }))).toBe(true);
    expect(Date.now() - startedAtMs).toBeLessThan(30_000);
    const next = Number((await pids.next()).value);
    left.add(next);
    expect(readFileSync(`/proc/${next}/cmdline`, 'utf8')).toContain(script);
  },
);
