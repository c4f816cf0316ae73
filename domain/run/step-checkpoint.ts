/** The record of a checkpoint of a shared VM, which lists the steps whose work the saved disk holds. */
import { parseCheckpoint } from './checkpoint.ts';
import { aCount, aText, type Check, listOf, objectOf } from './shape.ts';
import type { HeldAttempt } from './vm-lease.ts';

export interface StepCheckpoint {
  /** From 1, in the order in which they were made. */
  readonly number: number;
  /** The id of the checkpoint's own record. */
  readonly id: string;
  readonly usedBytes: number;
  /** The step after which it was made. */
  readonly after: string;
  /** The VMs whose disk it continues: the one in which it was made, and each that began with it or with a later one. */
  readonly generations: readonly number[];
  /** The attempts whose work it holds, in the order of their ends. */
  readonly holds: readonly HeldAttempt[];
}

/** A plan has at most 2,000 stages, each with a name of 64. */
export const STEP_CHECKPOINT_BYTES = 512 * 1024;

const RECORD = /^([1-9]\d{0,8})\.json$/;

const checkRecord: Check = objectOf({
  v: (value, at) => (value === 1 ? null : `${at} is not 1`),
  number: aCount,
  id: aText,
  usedBytes: aCount,
  after: aText,
  generations: listOf(aCount),
  holds: listOf(objectOf({ stage: aText, attempt: aCount })),
});

export function formatStepCheckpoint(checkpoint: StepCheckpoint): string {
  const { number, id, usedBytes, after, generations, holds } = checkpoint;
  return `${JSON.stringify({ v: 1, number, id, usedBytes, after, generations, holds })}\n`;
}

/** @throws Error if the text is no record of the checkpoint with this number */
export function parseStepCheckpoint(text: string, number: number): StepCheckpoint {
  const value: unknown = JSON.parse(text);
  const problem = checkRecord(value, 'the record');
  if (problem !== null) throw new Error(problem);
  const { v: _version, ...checkpoint } = value as StepCheckpoint & { readonly v: 1 };
  if (checkpoint.number !== number) throw new Error(`the record is of checkpoint ${checkpoint.number}`);
  return checkpoint;
}

/**
 * Reads a checkpoint from its two records. It is whole if both name the same one.
 * @param disk  the record beside the disk
 * @throws Error if it is not whole
 */
export function parseWholeCheckpoint(
  texts: { readonly record: string; readonly disk: string },
  number: number,
): StepCheckpoint {
  const checkpoint = parseStepCheckpoint(texts.record, number);
  const disk = parseCheckpoint(texts.disk);
  if (typeof disk === 'string') throw new Error(disk);
  if (disk.id !== checkpoint.id) throw new Error('its two records name different checkpoints');
  return checkpoint;
}

/** Returns the numbers of the checkpoints whose records are among the names in a folder, the newest first. */
export function listStepNumbers(names: readonly string[]): readonly number[] {
  return names
    .flatMap((name) => {
      const number = RECORD.exec(name)?.[1];
      return number === undefined ? [] : [Number(number)];
    })
    .toSorted((a, b) => b - a);
}

/** The name of the record, beside the folder with the number as its name. */
export function nameStepRecord(number: number): string {
  return `${number}.json`;
}

/** True if its run took it over from an earlier one: it holds no work of an attempt of its own run. */
export function isTakenOver({ holds }: Pick<StepCheckpoint, 'holds'>): boolean {
  return holds.every(({ attempt }) => attempt === 0);
}
