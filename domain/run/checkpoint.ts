/** Checkpoints: the saved disk of a VM in which no command ran, and the record that is next to it. */
import { aCount, aFlag, allowNull, aText, aTime, objectOf, optional, type Check } from './shape.ts';

/** Names of the files in the folder of a checkpoint. */
export const CHECKPOINT_RECORD = 'checkpoint.json';
export const CHECKPOINT_DISK = 'disk';

/** The limit of a chain of saved memories. */
export const CHECKPOINT_LINKS = 8;

/** The names of the two files of a link. */
export interface LinkFiles {
  readonly state: string;
  readonly memory: string;
}

/** The names of the files with a number. Those of a base have the number 0, those of a merge another one. */
export function nameLinkFiles(number: number): LinkFiles {
  return { state: `state-${number}`, memory: `memory-${number}` };
}

/** The names of the files of a chain, the base first. */
export function listLinkFiles({ links, firstFile = 0 }: Pick<CheckpointMemory, 'links' | 'firstFile'>): LinkFiles[] {
  return links.map((_, at) => nameLinkFiles(firstFile + at));
}

/** The limit of a record's size. */
export const CHECKPOINT_RECORD_BYTES = 16 * 1024;

/** The time for which the file system of a guest may be frozen, in total. */
export const FREEZE_LIMIT_MS = 30_000;

/** The stage that made a checkpoint. */
export interface CheckpointMaker {
  readonly run: string;
  readonly stage: string;
}

/** The memory of a checkpoint, with which VMs continue, and what such a VM must have. */
export interface CheckpointMemory {
  /** The names of the states of its chain, the base first. */
  readonly links: readonly string[];
  readonly memoryMib: number;
  readonly vcpus: number;
  /** Whether the VM has read-only mounts or command lines of agents, which are a device of it. */
  readonly hasMounts: boolean;
  /** The number of the base's files, after a merge of the chain; absent: 0. */
  readonly firstFile?: number | undefined;
}

export interface CheckpointRecord {
  readonly v: 1;
  /** 64 hexadecimal digits, random. */
  readonly id: string;
  readonly name?: string | undefined;
  readonly createdAtMs: number;
  /** The size of the disk, as the guest sees it. */
  readonly diskMib: number;
  /** The room that the disk uses on the host. */
  readonly usedBytes: number;
  /** The VMM of the VM: `qemu`, `vmm` or `mock`. */
  readonly vmm: string;
  /** The identity of the root image below the disk's layer; null: the image that every VM boots. */
  readonly root: string | null;
  /** The kind of the guest's kernel; `none` for a mock. */
  readonly kernelKind: string;
  /** True if the VM got a secret or a credential. */
  readonly withSecrets: boolean;
  readonly madeBy?: CheckpointMaker | undefined;
  /** Absent: the checkpoint has a disk only. */
  readonly memory?: CheckpointMemory | undefined;
}

const LINK = /^[0-9a-f]{32}$/;
const ID = /^[0-9a-f]{64}$/;
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/** Names that `sandbox.snapshot` gives a meaning of its own. */
const RESERVED: readonly string[] = ['none', 'auto', 'off'];

/** The rule for names, as the continuation of "must have". */
export const CHECKPOINT_NAME_RULE =
  '1 to 64 letters, digits, `.`, `_` and `-`, begin with a letter or a digit, and differ from `none`, `auto` and `off`';

export function isCheckpointName(name: string): boolean {
  return NAME.test(name) && !RESERVED.includes(name);
}

export function isCheckpointId(text: string): boolean {
  return ID.test(text);
}

const checkName: Check = (value, at) =>
  typeof value === 'string' && isCheckpointName(value) ? null : `${at} is not a name of a checkpoint`;

const checkLinks: Check = (value, at) =>
  Array.isArray(value) &&
  value.length > 0 &&
  value.length <= CHECKPOINT_LINKS &&
  value.every((link) => typeof link === 'string' && LINK.test(link))
    ? null
    : `${at} is not a list of 1 to ${CHECKPOINT_LINKS} names of states`;

const checkFirstFile: Check = (value, at) =>
  aCount(value, at) ?? (Number(value) > CHECKPOINT_LINKS ? `${at} is more than ${CHECKPOINT_LINKS}` : null);

const checkRecord = objectOf({
  v: (value, at) => (value === 1 ? null : `${at} is not 1`),
  id: (value, at) => (typeof value === 'string' && ID.test(value) ? null : `${at} is not 64 hexadecimal digits`),
  name: optional(checkName),
  createdAtMs: aTime,
  diskMib: (value, at) => aCount(value, at) ?? (value === 0 ? `${at} is 0` : null),
  usedBytes: aCount,
  vmm: aText,
  root: allowNull(aText),
  kernelKind: aText,
  withSecrets: aFlag,
  madeBy: optional(objectOf({ run: aText, stage: aText })),
  memory: optional(
    objectOf({
      links: checkLinks,
      memoryMib: aCount,
      vcpus: aCount,
      hasMounts: aFlag,
      firstFile: optional(checkFirstFile),
    }),
  ),
});

/** Reads the content of a `checkpoint.json`. Returns the problem as a text if it is not a record. */
export function parseCheckpoint(json: string): CheckpointRecord | string {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return 'it is not JSON';
  }
  return checkRecord(value, 'the record') ?? (value as CheckpointRecord);
}
