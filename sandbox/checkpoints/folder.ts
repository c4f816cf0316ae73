/**
 * The folder of a checkpoint: `checkpoint.json` and `disk`. A folder appears and disappears by a rename, so a folder
 * with its name is whole.
 */
import { randomBytes } from 'node:crypto';
import { link, open } from 'node:fs/promises';
import { join } from 'node:path';
import type { CheckpointTarget, LaunchSpec } from '../../activities/ports/sandbox.ts';
import { CodedError, isCodedError } from '../../domain/errors/coded-error.ts';
import {
  CHECKPOINT_DISK,
  CHECKPOINT_RECORD,
  CHECKPOINT_RECORD_BYTES,
  type CheckpointRecord,
  parseCheckpoint,
} from '../../domain/run/checkpoint.ts';
import { readFileWithin } from '../../files/open-file.ts';
import { publishFolder, removeFolder } from '../../files/publish-folder.ts';

/** The properties of the VM in a record. */
export type CheckpointOfVm = Pick<CheckpointRecord, 'diskMib' | 'vmm' | 'root' | 'kernelKind'>;

/**
 * Makes the folder. `writeDisk` writes the disk at a path and returns the room that it uses.
 * @throws CodedError `store/io`, or the error of `writeDisk`; nothing is left then
 */
export async function writeCheckpoint(
  target: CheckpointTarget,
  vm: CheckpointOfVm,
  writeDisk: (path: string) => Promise<{ readonly usedBytes: number }>,
): Promise<CheckpointRecord> {
  try {
    return await publishFolder(target.dir, async (partial) => {
      const { usedBytes } = await writeDisk(join(partial, CHECKPOINT_DISK));
      const record: CheckpointRecord = {
        v: 1,
        id: target.id ?? randomBytes(32).toString('hex'),
        ...(target.name === undefined ? {} : { name: target.name }),
        createdAtMs: Date.now(),
        diskMib: vm.diskMib,
        usedBytes,
        vmm: vm.vmm,
        root: vm.root,
        kernelKind: vm.kernelKind,
        withSecrets: target.withSecrets,
        ...(target.madeBy === undefined ? {} : { madeBy: target.madeBy }),
      };
      await writeRecord(join(partial, CHECKPOINT_RECORD), record);
      return record;
    });
  } catch (error) {
    if (isCodedError(error)) throw error;
    throw new CodedError('store/io', `cannot write the checkpoint ${target.dir}: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

/**
 * Makes a second folder of a checkpoint. Its disk is a link to the same file, which is never written again, so it takes no
 * room and stays when the first folder is deleted.
 * @throws Error if the checkpoint does not exist or is not whole, or the file system has no such links
 */
export async function linkCheckpoint(dir: string, to: string): Promise<void> {
  await publishFolder(to, async (partial) => {
    const record = readCheckpoint(dir);
    await link(join(dir, CHECKPOINT_DISK), join(partial, CHECKPOINT_DISK));
    await writeRecord(join(partial, CHECKPOINT_RECORD), record);
  });
}

async function writeRecord(path: string, record: CheckpointRecord): Promise<void> {
  const file = await open(path, 'wx', 0o600);
  try {
    await file.writeFile(`${JSON.stringify(record)}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Removes a checkpoint, also while VMs that started from it run. Idempotent. @throws CodedError `store/io` */
export async function deleteCheckpoint(dir: string): Promise<void> {
  try {
    await removeFolder(dir);
  } catch (error) {
    throw new CodedError('store/io', `cannot delete the checkpoint ${dir}: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

/** @throws CodedError `vm/checkpoint-unfit` */
export function readCheckpoint(dir: string): CheckpointRecord {
  let problem: string;
  try {
    const rule = { roots: [dir], mostBytes: CHECKPOINT_RECORD_BYTES };
    const record = parseCheckpoint(readFileWithin(join(dir, CHECKPOINT_RECORD), rule).toString());
    if (typeof record !== 'string') return record;
    problem = record;
  } catch (error) {
    problem = (error as Error).message;
  }
  throw new CodedError('vm/checkpoint-unfit', `the checkpoint ${dir} cannot be used: ${CHECKPOINT_RECORD}: ${problem}`);
}

/**
 * Checks that a VM can start from a checkpoint.
 * @param what  the VM, for messages
 * @throws CodedError `vm/checkpoint-unfit`
 */
export function requireFit(
  what: string,
  record: CheckpointRecord,
  vm: Pick<LaunchSpec, 'diskMib'> & { readonly isMock: boolean; readonly root: string | null },
): void {
  const refuse = (why: string): never => {
    const name = record.name === undefined ? record.id.slice(0, 12) : `"${record.name}"`;
    throw new CodedError('vm/checkpoint-unfit', `${what} cannot start from checkpoint ${name}: ${why}`);
  };
  if ((record.vmm === 'mock') !== vm.isMock)
    refuse(`it is of the VMM ${record.vmm}, the VM has ${vm.isMock ? 'the mock' : 'a VMM that runs programs'}`);
  if (record.root !== vm.root)
    refuse(`its image is ${nameRoot(record.root)}, that of the VM is ${nameRoot(vm.root)}; give the VM the same image`);
  if (vm.diskMib < record.diskMib)
    refuse(
      `its disk has ${record.diskMib} MiB, that of the VM ${vm.diskMib} MiB; set disk_mb to ${record.diskMib} or more`,
    );
}

function nameRoot(root: string | null): string {
  return root ?? 'base';
}
