/**
 * The folder of a checkpoint: `checkpoint.json` and `disk`. A folder appears and disappears by a rename, so a folder
 * with its name is whole.
 */
import { randomBytes } from 'node:crypto';
import { link, open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { CheckpointTarget, LaunchSpec } from '../../activities/ports/sandbox.ts';
import { CodedError, isCodedError } from '../../domain/errors/coded-error.ts';
import {
  CHECKPOINT_DISK,
  CHECKPOINT_RECORD,
  CHECKPOINT_RECORD_BYTES,
  type CheckpointMemory,
  type CheckpointRecord,
  type LinkFiles,
  listLinkFiles,
  nameLinkFiles,
  parseCheckpoint,
} from '../../domain/run/checkpoint.ts';
import { readFileWithin } from '../../files/open-file.ts';
import { errnoOf } from '../../files/errno.ts';
import { publishFolder, removeFolder, syncFolder } from '../../files/publish-folder.ts';

/** The end of the name of a record that is not complete. */
const PARTIAL = '.partial';

/** The properties of the VM in a record. */
export type CheckpointOfVm = Pick<CheckpointRecord, 'diskMib' | 'vmm' | 'root' | 'kernelKind'>;

/**
 * Makes the folder. `writeDisk` writes the disk at a path, and the files of a memory beside it, and returns the room that
 * they use.
 * @throws CodedError `store/io`, or the error of `writeDisk`; nothing is left then
 */
export async function writeCheckpoint(
  target: CheckpointTarget,
  vm: CheckpointOfVm,
  writeDisk: (path: string) => Promise<Pick<CheckpointRecord, 'usedBytes' | 'memory'>>,
): Promise<CheckpointRecord> {
  try {
    return await publishFolder(target.dir, async (partial) => {
      const { usedBytes, memory } = await writeDisk(join(partial, CHECKPOINT_DISK));
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
        ...(memory === undefined ? {} : { memory }),
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
    await link(join(dir, CHECKPOINT_DISK), join(partial, CHECKPOINT_DISK));
    const record = readCheckpoint(dir);
    if (record.memory === undefined) return await writeRecord(join(partial, CHECKPOINT_RECORD), record);
    const { firstFile: _, ...memory } = record.memory;
    const links = await linkMemory(dir, partial);
    await writeRecord(join(partial, CHECKPOINT_RECORD), { ...record, memory: { ...memory, links } });
  });
}

/**
 * Gives the files of a checkpoint's chain a second name, with the numbers from 0 on. They are never written again. If a
 * merge replaces the chain during that, its files are linked.
 * @returns the names of the states, the base first
 */
export async function linkMemory(dir: string, to: string): Promise<readonly string[]> {
  for (;;) {
    const memory = readCheckpoint(dir).memory;
    const files = memory === undefined ? [] : listLinkFiles(memory);
    try {
      for (const [at, names] of files.entries()) await linkBoth(dir, names, to, nameLinkFiles(at));
      return memory?.links ?? [];
    } catch (error) {
      if (errnoOf(error) !== 'ENOENT' || readCheckpoint(dir).memory?.firstFile === memory?.firstFile) throw error;
      for (const at of files.keys())
        for (const name of Object.values(nameLinkFiles(at))) await rm(join(to, name), { force: true });
    }
  }
}

async function linkBoth(dir: string, from: LinkFiles, to: string, as: LinkFiles): Promise<void> {
  await link(join(dir, from.state), join(to, as.state));
  await link(join(dir, from.memory), join(to, as.memory));
}

/** Replaces the record of a checkpoint: a reader finds the old or the new one. The files that it names are complete. */
export async function replaceRecord(dir: string, record: CheckpointRecord): Promise<void> {
  const partial = join(dir, `${CHECKPOINT_RECORD}${PARTIAL}`);
  await rm(partial, { force: true });
  await writeRecord(partial, record);
  await syncFolder(dir);
  await rename(partial, join(dir, CHECKPOINT_RECORD));
  await syncFolder(dir);
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

/** The properties of a VM that must fit to a checkpoint. */
export interface FittingVm extends Pick<LaunchSpec, 'diskMib'> {
  readonly isMock: boolean;
  readonly root: string | null;
  /** The name of its VMM and what a saved memory needs; absent: it cannot continue from one. */
  readonly memory?: Omit<CheckpointMemory, 'links' | 'firstFile'> & { readonly vmm: string };
}

/**
 * Checks that a VM can start from a checkpoint.
 * @param what  the VM, for messages
 * @throws CodedError `vm/checkpoint-unfit`
 */
export function requireFit(what: string, record: CheckpointRecord, vm: FittingVm): void {
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
  const why = record.memory === undefined ? null : findMemoryProblem(record.memory, record, vm);
  if (why !== null) refuse(why);
}

/** Returns the reason why a VM cannot continue with this memory, with both values. */
function findMemoryProblem(saved: CheckpointMemory, record: CheckpointRecord, vm: FittingVm): string | null {
  const { memory } = vm;
  if (memory === undefined || memory.vmm !== record.vmm)
    return `it has the memory of a VM on the VMM ${record.vmm}, the VM has ${memory?.vmm ?? 'another one'}`;
  if (saved.memoryMib !== memory.memoryMib)
    return `its VM has ${saved.memoryMib} MiB of memory, the VM ${memory.memoryMib} MiB; set memory_mb to ${saved.memoryMib}`;
  if (saved.vcpus !== memory.vcpus)
    return `its VM has ${saved.vcpus} ${saved.vcpus === 1 ? 'vCPU' : 'vCPUs'}, the VM ${memory.vcpus}; set vcpus to ${saved.vcpus}`;
  if (record.diskMib !== vm.diskMib)
    return `its disk has ${record.diskMib} MiB, that of the VM ${vm.diskMib} MiB; set disk_mb to ${record.diskMib}`;
  if (saved.hasMounts !== memory.hasMounts) {
    const name = (has: boolean): string => (has ? 'read-only mounts' : 'no read-only mounts');
    return `its VM has ${name(saved.hasMounts)}, the VM ${name(memory.hasMounts)}`;
  }
  return null;
}

function nameRoot(root: string | null): string {
  return root ?? 'base';
}
