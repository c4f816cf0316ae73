/** Rows in which a VM ends while a command runs in it: by a cancel, with its keeper, or with its VMM. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Sandbox, VmKey } from '../../../activities/ports/sandbox.ts';
import { isCodedError } from '../../../domain/errors/coded-error.ts';
import { readRunDir, vmRunDir } from '../../../native/index.ts';
import { descendantsOf } from '../../rig/vms/snapshot-folder.ts';
import { limit, request, withOwnVm } from '../../conformance/sandbox/behaviour.ts';
import type { OnVmm, VmmRow } from './row.ts';

/** The time in which all processes of a VM must be gone. The lab is slow. */
const GONE_LIMIT_MS = 30_000;

/** A small VM boots sooner. */
const SMALL = { memoryMib: 128, diskMib: 64 };

/** Ends a VM; `below` are all processes below its keeper. */
type End = (keeper: number, below: readonly number[], release: () => Promise<void>) => Promise<void> | void;

/** The VM of a death: a new one, or the one that rows share, which no later row can use. */
type Victim = 'own' | 'shared';

function makeDeath(name: string, victim: Victim, end: End): VmmRow {
  const run = async ({ conformance: c, vmsDir, task }: OnVmm, sandbox: Sandbox, key: VmKey): Promise<void> => {
    const exec = await sandbox.exec(request('sleep', ['600']), limit());
    const ended = exec.wait(limit()).then(
      (exit) => assert.fail(`the command ended with ${exit.exitCode}`),
      (error: unknown) => error,
    );
    const { pid } = await readRunDir(task.pieces.keeper, vmRunDir(vmsDir, key));
    assert.ok(pid !== null);
    const below = descendantsOf(pid);
    assert.ok(below.some(isVmm), 'a VMM runs below the keeper');
    await end(pid, below, () => c.backend.release(key));
    const error = await ended;
    assert.ok(isCodedError(error), String(error));
    assert.match(error.code, /^vm\//);
    await expectGone([pid, ...below]);
  };
  return {
    name,
    run: async (on) => {
      const { conformance: c } = on;
      if (victim === 'shared') await run(on, await c.shared(), c.sharedKey);
      else await withOwnVm(c, SMALL, (sandbox, key) => run(on, sandbox, key));
    },
  };
}

/** They come after all other rows of a VMM, because the last one ends the VM that rows share. */
export const DEATHS: readonly VmmRow[] = [
  makeDeath('a keeper that is killed takes its VM along', 'own', (keeper) => void process.kill(keeper, 'SIGKILL')),
  makeDeath('a VMM that is killed ends the command with an error', 'own', (_keeper, below) => {
    process.kill(below.find(isVmm)!, 'SIGKILL');
  }),
  makeDeath('a release ends the VM while its command runs', 'shared', (_keeper, _below, release) => release()),
];

/** Whether a process is a VMM, and not the jail around it. */
export function isVmm(pid: number): boolean {
  return /(?:^|\/)(?:qemu-system-x86_64|voidbox-vmm)$/.test(readWords(pid)[0] ?? '');
}

export function readWords(pid: number): readonly string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return [];
  }
}

/** Waits until processes have ended. */
export async function expectGone(pids: readonly number[]): Promise<void> {
  const alive = (): readonly number[] => pids.filter((pid) => readWords(pid).join('') !== '');
  for (const until = Date.now() + GONE_LIMIT_MS; alive().length > 0 && Date.now() < until;) await sleep(50);
  assert.deepEqual(
    alive().map((pid) => readWords(pid).join(' ')),
    [],
    'processes of the VM are left',
  );
}
