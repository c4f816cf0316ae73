/** Figure (g): from `kill -9` of the worker to the next line that the stage's readers see. */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { RunReader } from '../activities/ports/run-reader.ts';
import type { Arm } from './measure.ts';

const run = promisify(execFile);

const SPEC = `api_version: v1
kind: workflow
name: talker
sandbox: { memory_mb: 256 }
workflow:
  steps:
    - name: talk
      run: { program: sh, args: [-c, "while :; do date; sleep 0.2; done"] }
`;

export function recoveryArm(
  bin: string,
  stateDir: string,
  workDir: string,
  reader: RunReader,
  env: Readonly<Record<string, string | undefined>>,
): Arm<'secondsToNextLine'> {
  const spec = join(workDir, 'talker.yaml');
  writeFileSync(spec, SPEC);
  const voidbox = (...args: readonly string[]): Promise<unknown> =>
    run(process.execPath, [bin, ...args], { env: { ...env } });
  return {
    name: 'worker killed in mid-stage',
    async round() {
      const runId = `recovery-${randomUUID().slice(0, 8)}`;
      await voidbox('run', spec, '--detach', '--run-id', runId);
      const killedAfter = await nextOutput(reader, runId, 0, 60_000);
      const { workerPid } = JSON.parse(readFileSync(join(stateDir, 'stack.json'), 'utf8')) as { workerPid: number };
      process.kill(workerPid, 'SIGKILL');
      const began = performance.now();
      // Output that the dead worker stored in its last moment does not show that the run continues.
      await sleep(100);
      const stored = await readLastSeq(reader, runId, killedAfter);
      await nextOutput(reader, runId, stored, 120_000);
      const secondsToNextLine = (performance.now() - began) / 1000;
      await voidbox('cancel', runId);
      return { secondsToNextLine };
    },
  };
}

async function nextOutput(reader: RunReader, runId: string, after: number, limitMs: number): Promise<number> {
  for await (const event of reader.follow(runId, after, AbortSignal.timeout(limitMs)))
    if (event.body.type === 'output') return event.seq;
  throw new Error(`run ${runId} wrote nothing within ${limitMs} ms`);
}

async function readLastSeq(reader: RunReader, runId: string, after: number): Promise<number> {
  let last = after;
  for await (const event of reader.read(runId, after)) last = event.seq;
  return last;
}
