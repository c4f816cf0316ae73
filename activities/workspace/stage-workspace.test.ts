/** The messages of the guest's git in failures. */
import { Buffer } from 'node:buffer';
import { expect, test } from 'vitest';
import { createRedactor } from '../../domain/security/redactor.ts';
import type { Exec, ExecExit } from '../ports/sandbox.ts';
import { describeExit } from './stage-workspace.ts';

const SECRET = 'sk-canary-0b7f21d94c6e';

/** Returns the text in the form of a stage's failure, which is redacted as a message. */
async function toldOf(stderr: string): Promise<string> {
  const bytes = Buffer.from(stderr);
  const exec: Pick<Exec, 'output'> = {
    async *output(_stream, offset) {
      yield bytes.subarray(offset);
    },
  };
  const exit = { reason: 'exited', exitCode: 128, message: '', stderrBytes: bytes.length } as ExecExit;
  const why = await describeExit(exec as Exec, exit, new AbortController().signal);
  return createRedactor([{ name: 'KEY', value: SECRET }]).text(why);
}

test('the failure contains the last lines, and their cut shows no part of a secret', async () => {
  for (let behind = 1_000; behind <= 1_024; behind += 1) {
    const last = '\nfatal: no\n';
    const told = await toldOf(`fatal: ${SECRET}${'x'.repeat(behind - last.length)}${last}`);
    expect(told).toBe('fatal: no');
  }
  expect(await toldOf(`fatal: ${SECRET}\n`)).toBe('fatal: [redacted]');
});

test('the failure for a line that is too long has its exit code', async () => {
  expect(await toldOf('x'.repeat(1_025))).toBe('git in the VM ended with exit code 128');
  expect(await toldOf('x'.repeat(1_024))).toBe('x'.repeat(1_024));
});
