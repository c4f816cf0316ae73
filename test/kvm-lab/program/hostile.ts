/** Rows in which the guest is hostile, or its kernel panics: the launch or the command fails with the right code. */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isCodedError, type CodedError } from '../../../domain/errors/coded-error.ts';
import { isRecord } from '../../../native/api.ts';
import { vmRunDir } from '../../../native/index.ts';
import { limit, request } from '../../conformance/sandbox/behaviour.ts';
import { createRealHost, type RealHost, SMALL_VM } from '../../conformance/sandbox/real-host.ts';
import {
  HOSTILE_GUESTS,
  type HostileGuest,
  makeHostileImage,
  PANIC_AT_FIRST_REQUEST,
} from '../../rig/vms/hostile-guest.ts';
import type { OnVmm, VmmRow } from './row.ts';

/** The keeper boots a silent guest twice. */
const SILENT_BOOT_TIMEOUT_MS = 8_000;
const EXIT_FILE_LIMIT_MS = 30_000;
const KEY = { runId: 'hostile', scope: 'guest', instance: [], generation: 0 };

/** Makes a host whose guests run the script, and removes it after `use`. */
async function withHostileGuest(
  { task, conformance }: OnVmm,
  guest: Pick<HostileGuest, 'name' | 'script' | 'isSilent'>,
  use: (host: RealHost) => Promise<void>,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'voidbox-hostile-'));
  const isNative = conformance.backend.name === 'vmm';
  try {
    const initramfs = await makeHostileImage(folder, task.pieces.initramfs, guest, isNative ? 'vsock' : 'serial');
    const host = await createRealHost(
      { ...task.pieces, initramfs },
      {
        bootTimeoutMs: guest.isSilent === true ? SILENT_BOOT_TIMEOUT_MS : task.bootTimeoutMs,
        snapshots: 'off',
        ...(isNative ? { vmm: task.vmm! } : {}),
      },
    );
    let left: readonly string[] = [];
    try {
      await use(host);
    } finally {
      left = await host.dispose();
    }
    assert.deepEqual(left, [], 'VMs of the hostile guest are left');
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function failureOf(work: Promise<unknown>): Promise<CodedError> {
  const error = await work.then(
    () => assert.fail('it succeeded'),
    (failure: unknown) => failure,
  );
  assert.ok(isCodedError(error), String(error));
  return error;
}

function makeHostileRow(guest: HostileGuest): VmmRow {
  return {
    name: `a guest that ${guest.name} fails its launch with ${guest.code}`,
    run: (on) =>
      withHostileGuest(on, guest, async ({ backend }) => {
        const failure = await failureOf(backend.launch(KEY, { ...SMALL_VM, mode: backend.name }, limit()));
        assert.equal(failure.code, guest.code, failure.message);
        assert.match(failure.message, /console/);
        await backend.release(KEY);
      }),
  };
}

/** Reads `exit.json`, which the keeper writes after it has answered its clients. */
async function readExitFile(path: string): Promise<Readonly<Record<string, unknown>>> {
  const signal = AbortSignal.timeout(EXIT_FILE_LIMIT_MS);
  for (;;) {
    const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' && !signal.aborted) return null;
      throw error;
    });
    const exit: unknown = text === null ? null : JSON.parse(text);
    if (isRecord(exit)) return exit;
    await sleep(50);
  }
}

/** The kernel resets its machine after a panic, because it has `panic=-1`. */
const PANIC: VmmRow = {
  name: 'a guest kernel that panics ends its command as a lost VM, with the reason',
  run: (on) =>
    withHostileGuest(on, { name: 'panics', script: PANIC_AT_FIRST_REQUEST }, async ({ backend, vmsDir }) => {
      const sandbox = await backend.launch(KEY, { ...SMALL_VM, mode: backend.name }, limit());
      const failure = await failureOf(sandbox.exec(request('true'), limit()).then((exec) => exec.wait(limit())));
      assert.equal(failure.code, 'vm/lost', failure.message);
      sandbox.detach();
      const exit = await readExitFile(join(vmRunDir(vmsDir, KEY), 'exit.json'));
      assert.match(String(exit['consoleTail']), /Kernel panic - not syncing: sysrq triggered crash/);
      if (backend.name === 'vmm') assert.deepEqual(exit['vmmEnd'], { kind: 'reset' });
      await backend.release(KEY);
    }),
};

export const HOSTILE: readonly VmmRow[] = [...HOSTILE_GUESTS.map(makeHostileRow), PANIC];
