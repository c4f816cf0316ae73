/** Prepared sandboxes of a program: the saved disks of its VMs, below the state folder. */
import type { Sandbox as Vm } from '../activities/ports/sandbox.ts';
import { CodedError } from '../domain/errors/coded-error.ts';
import {
  CHECKPOINT_NAME_RULE,
  type CheckpointMaker,
  type CheckpointRecord,
  isCheckpointName,
} from '../domain/run/checkpoint.ts';
import { withLock } from '../setup/lock.ts';
import {
  claimPreparedRoom,
  deleteOthersOfName,
  deletePreparedSandbox,
  findPreparedSandbox,
  listPreparedSandboxes,
  locateNameLock,
  makePreparedPlace,
  type PreparedPlace,
  type PreparedSandbox,
  refuseFullPlace,
  refuseUsedName,
} from '../store/prepared-sandboxes.ts';
import { checkKnown, refuse } from './check.ts';
import type { LaunchChoice } from './launch-options.ts';
import { makeVmsFolder } from './state-folder.ts';

export interface CheckpointOptions {
  /** The name for `from`. Absent: only the id finds the checkpoint. */
  readonly name?: string;
  /** Deletes an older checkpoint of the same name. Default: false, and a name that is used is an error. */
  readonly replace?: boolean;
  /**
   * Confirms that the disk may contain secrets, and marks the checkpoint. A VM that started from a marked checkpoint
   * needs it. Default: false.
   */
  readonly withSecrets?: boolean;
  /**
   * Saves the memory too: `all` of it, or what `changed` since the VM's last checkpoint with memory or since the one from
   * which it continues. The VM needs `savesMemory`. Default: the disk only.
   */
  readonly memory?: 'all' | 'changed';
  /** Aborts the checkpoint. Nothing is left then. */
  readonly signal?: AbortSignal;
}

const KNOWN = { name: true, replace: true, withSecrets: true, memory: true, signal: true } as const;
const NEVER = new AbortController().signal;

/** A saved disk, from which VMs start. */
export class Checkpoint {
  /** 64 hexadecimal digits. */
  readonly id: string;
  readonly name: string | null;
  readonly createdAtMs: number;
  /** The size of the disk; a VM that starts from it has at least this size. */
  readonly diskMib: number;
  /** The room that the disk uses on the host. */
  readonly usedBytes: number;
  readonly withSecrets: boolean;
  /** Whether VMs that start from it continue with its memory. */
  readonly hasMemory: boolean;
  /** The run and the stage that made it; null: a program. */
  readonly madeBy: { readonly run: string; readonly stage: string } | null;
  readonly #dir: string;

  constructor({ dir, record }: PreparedSandbox) {
    this.id = record.id;
    this.name = record.name ?? null;
    this.createdAtMs = record.createdAtMs;
    this.diskMib = record.diskMib;
    this.usedBytes = record.usedBytes;
    this.withSecrets = record.withSecrets;
    this.hasMemory = record.memory !== undefined;
    this.madeBy = record.madeBy ?? null;
    this.#dir = dir;
  }

  /** Deletes the checkpoint. VMs that started from it continue. Can be called again. */
  delete(): Promise<void> {
    return deletePreparedSandbox(this.#dir);
  }
}

/** Saves the disk of a VM for its program. @throws TypeError for an option, CodedError */
export async function makeCheckpoint(...args: Parameters<typeof keepDisk>): Promise<Checkpoint> {
  return new Checkpoint(await keepDisk(...args));
}

/** Saves the disk of a VM below the state folder. @throws TypeError for an option, CodedError */
export async function keepDisk(
  vm: Vm,
  place: PreparedPlace,
  hasSecrets: boolean,
  options: CheckpointOptions,
  madeBy?: CheckpointMaker,
): Promise<PreparedSandbox> {
  checkKnown<CheckpointOptions>('the options of `checkpoint`', options, KNOWN);
  const { name, replace = false, withSecrets = false, memory, signal = NEVER } = options;
  if (name !== undefined && (typeof name !== 'string' || !isCheckpointName(name)))
    throw refuse('name', name, CHECKPOINT_NAME_RULE);
  for (const [option, value] of Object.entries({ replace, withSecrets }))
    if (typeof value !== 'boolean') throw refuse(option, value, 'true or false');
  if (memory !== undefined && memory !== 'all' && memory !== 'changed')
    throw refuse('memory', memory, 'all or changed');
  if (hasSecrets && !withSecrets)
    throw new CodedError(
      'vm/checkpoint-secrets',
      'the VM started from a checkpoint that is marked `withSecrets`: set `withSecrets: true`',
    );
  signal.throwIfAborted();
  const { stateDir } = place;
  await makeVmsFolder(stateDir);
  const keep = async (): Promise<PreparedSandbox> => {
    signal.throwIfAborted();
    if (name !== undefined && !replace) refuseUsedName(stateDir, name);
    // This check saves a copy that would be refused. The one after the copy decides between two makers.
    refuseFullPlace(place, replace ? (name ?? null) : null);
    const { id, dir } = await makePreparedPlace(stateDir);
    const record: CheckpointRecord = await vm.checkpoint({ id, dir, name, withSecrets, madeBy, memory }, signal);
    await claimPreparedRoom(place, record, replace);
    await deleteOthersOfName(stateDir, record);
    return { dir, record };
  };
  // The second maker of a name finds the checkpoint of the first, whatever their clocks say.
  return name === undefined ? await keep() : await withLock(locateNameLock(stateDir, name), keep, () => undefined);
}

export function listCheckpoints(stateDir: string): readonly Checkpoint[] {
  return listPreparedSandboxes(stateDir).sandboxes.map((prepared) => new Checkpoint(prepared));
}

/**
 * Adds the checkpoint of `from` to a choice. Without `diskMib`, the VM gets a disk of its size.
 * @throws CodedError `vm/checkpoint-unfit`
 */
export function chooseFrom(choice: LaunchChoice, stateDir: string): LaunchChoice {
  if (choice.from === null) return choice;
  const found = findPreparedSandbox(stateDir, choice.from);
  if (typeof found === 'string') throw new CodedError('vm/checkpoint-unfit', found);
  const { spec } = choice;
  const { record, dir } = found;
  // A VM that continues with its memory has exactly this disk.
  const least = record.memory === undefined ? Math.max(spec.diskMib, record.diskMib) : record.diskMib;
  const diskMib = choice.hasDiskSize ? spec.diskMib : least;
  const savesMemory = record.memory === undefined ? {} : { savesMemory: true };
  return { ...choice, spec: { ...spec, ...savesMemory, diskMib, from: dir }, hasSecrets: record.withSecrets };
}
