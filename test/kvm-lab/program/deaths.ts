/** Rows in which a VM ends while a command runs in it: by a cancel, with its keeper, or with its VMM. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { isCodedError } from '../../../domain/errors/coded-error.ts';
import { readRunDir, vmRunDir } from '../../../native/index.ts';
import { descendantsOf } from '../../rig/vms/snapshot-folder.ts';
import { limit, request, withOwnVm } from '../../conformance/sandbox/behaviour.ts';
import type { VmmRow } from './row.ts';

/** The time in which all processes of a VM must be gone. The lab is slow. */
const GONE_LIMIT_MS = 30_000;

/** A small VM boots sooner. */
const SMALL = { memoryMib: 128, diskMib: 64 };

/** Ends a VM; `below` are all processes below its keeper. */
type End = (keeper: number, below: readonly number[], release: () => Promise<void>) => Promise<void> | void;

function makeDeath(name: string, end: End): VmmRow {
  return {
    name,
    async run({ conformance: c, vmsDir, task: { pieces } }) {
      await withOwnVm(c, SMALL, async (sandbox, key) => {
        const exec = await sandbox.exec(request('sleep', ['600']), limit());
        const ended = exec.wait(limit()).then(
          (exit) => assert.fail(`the command ended with ${exit.exitCode}`),
          (error: unknown) => error,
        );
        const { pid } = await readRunDir(pieces.keeper, vmRunDir(vmsDir, key));
        assert.ok(pid !== null);
        const below = descendantsOf(pid);
        assert.ok(below.some(isVmm), 'a VMM runs below the keeper');
        await end(pid, below, () => c.backend.release(key));
        const error = await ended;
        assert.ok(isCodedError(error), String(error));
        assert.match(error.code, /^vm\//);
        await expectGone([pid, ...below]);
      });
    },
  };
}

export const DEATHS: readonly VmmRow[] = [
  makeDeath('a release ends the VM while its command runs', (_keeper, _below, release) => release()),
  makeDeath('a keeper that is killed takes its VM along', (keeper) => void process.kill(keeper, 'SIGKILL')),
  makeDeath('a VMM that is killed ends the command with an error', (_keeper, below) => {
    process.kill(below.find(isVmm)!, 'SIGKILL');
  }),
];

/** Whether a process is a VMM, and not the jail around it. */
function isVmm(pid: number): boolean {
  return /(?:^|\/)(?:qemu-system-x86_64|voidbox-vmm)$/.test(readWords(pid)[0] ?? '');
}

function readWords(pid: number): readonly string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return [];
  }
}

async function expectGone(pids: readonly number[]): Promise<void> {
  const alive = (): readonly number[] => pids.filter((pid) => readWords(pid).join('') !== '');
  for (const until = Date.now() + GONE_LIMIT_MS; alive().length > 0 && Date.now() < until;) await sleep(50);
  assert.deepEqual(
    alive().map((pid) => readWords(pid).join(' ')),
    [],
    'processes of the VM are left',
  );
}
