/** The facts by which a scan finds that a file has not changed, and the hashes that name its place. */
import { createHash } from 'node:crypto';
import type { BigIntStats } from 'node:fs';
import type { FoundEntry } from './walk-folder.ts';

type Facts = Pick<BigIntStats, 'size' | 'mtimeNs' | 'ctimeNs' | 'ino'>;

/** The time of a change of its status, the last fact, is not part of the state of a file that was skipped. */
export function describeState({ size, mtimeNs, ino, ctimeNs }: Facts): string {
  return `${size}:${mtimeNs}:${ino}:${ctimeNs}`;
}

/** Whether two states are equal, whatever the times of their changes of status. */
export function isSameContent(one: string, other: string): boolean {
  return one.slice(0, one.lastIndexOf(':')) === other.slice(0, other.lastIndexOf(':'));
}

export function joinNames(names: readonly Buffer[]): Buffer {
  return Buffer.concat(names.flatMap((name, at) => (at === 0 ? [name] : [Buffer.from('/'), name])));
}

/** Returns the text of a path; null: its bytes are not UTF-8. */
export function readPathText(path: Buffer): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(path);
  } catch {
    return null;
  }
}

/** SHA-256 in hex. @param root  the watched folder */
export function computePlaceHash(root: string, path: Buffer): string {
  return createHash('sha256').update(root).update('\0').update(path).digest('hex');
}

export function computeTextHash(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** @param salt  of this process, so that the author of a name cannot choose its fingerprint */
export function computeFingerprint({ kind, stats }: FoundEntry, path: Buffer, salt: Buffer): bigint {
  const state = `\0${kind}\0${describeState(stats)}`;
  return createHash('sha256').update(salt).update(path).update(state).digest().readBigUInt64LE();
}
