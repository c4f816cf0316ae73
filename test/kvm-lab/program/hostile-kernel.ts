/** A row in which a kernel drives each device of `voidbox-vmm` wrongly from ring 0. Its VMs have no keeper. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import type { VmmRow } from './row.ts';

const LIMIT_MS = 10 * 60_000;
/** A failed test prints the lines of its kernel. */
const OUTPUT_TAIL_CHARACTERS = 6_000;

async function runTest(program: string): Promise<void> {
  const child = spawn(program, ['--test-threads=1', '--nocapture'], {
    env: { ...process.env, VOIDBOX_REQUIRE_VM_TESTS: '1', RUST_BACKTRACE: '0' },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: LIMIT_MS,
    killSignal: 'SIGKILL',
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-OUTPUT_TAIL_CHARACTERS);
    });
  const code = await new Promise<number | string | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (exitCode, signal) => resolve(exitCode ?? signal));
  });
  assert.equal(code, 0, output);
}

const RING_0: VmmRow = {
  name: 'a kernel that drives each device wrongly fails the devices alone, and its VMM stays as it is',
  run: async ({ task }) => {
    assert.ok(task.hostileKernelTest !== undefined, 'the task names the test of the hostile kernel');
    await runTest(task.hostileKernelTest);
  },
};

export const HOSTILE_KERNEL: readonly VmmRow[] = [RING_0];
