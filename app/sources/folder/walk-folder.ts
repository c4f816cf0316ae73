/** Finds the entries of a watched folder that match the pattern of a trigger. */
import type { BigIntStats } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import {
  advancePattern,
  type FilePattern,
  isMatch,
  mayHoldMatch,
  type PatternState,
  startOf,
} from '../../../domain/language/read/file-pattern.ts';
import type { EntryKind, FOLDER_LIMITS } from '../../../domain/sources/file-rules.ts';
import { FileRefusal } from '../../../files/open-file.ts';
import { listNames, openChild, readFacts } from './held-folder.ts';

export interface FoundEntry {
  readonly kind: EntryKind;
  /** The names on the way from the watched folder, and its own. */
  readonly names: readonly Buffer[];
  readonly stats: BigIntStats;
}

export interface Walk {
  /** Why the walk ended before all names were read; null: it did not. */
  problem: string | null;
  readonly entries: AsyncGenerator<FoundEntry>;
}

export type WalkLimits = Pick<Record<keyof typeof FOLDER_LIMITS, number>, 'files' | 'names' | 'depth'>;

/** One call after the other waits for a thread each time, which takes most of a walk on a busy machine. */
const FACTS_AT_ONCE = 64;

/** @param signal  ends the walk */
export function walkFolder(
  root: FileHandle,
  pattern: FilePattern,
  { limits, signal }: { readonly limits: WalkLimits; readonly signal: AbortSignal },
): Walk {
  const left = { files: limits.files, names: limits.names };
  const walk: Walk = { problem: null, entries: visit(root, [], startOf(pattern)) };
  async function* visit(folder: FileHandle, above: readonly Buffer[], state: PatternState): AsyncGenerator<FoundEntry> {
    let batch: (readonly Buffer[])[] = [];
    for await (const { name, isFolder } of listNames(folder)) {
      if (signal.aborted) return;
      if (left.names === 0) walk.problem = `it has more than ${limits.names} names`;
      if (walk.problem !== null) break;
      left.names -= 1;
      // A name that is not UTF-8 matches by its readable part, so that it is refused with an event.
      const next = advancePattern(pattern, state, name.toString('utf8'));
      const names = [...above, name];
      if (isFolder) yield* enter(folder, names, next);
      else if (isMatch(pattern, next)) batch.push(names);
      if (batch.length < FACTS_AT_ONCE) continue;
      yield* find(folder, batch);
      batch = [];
    }
    yield* find(folder, batch);
  }
  async function* enter(folder: FileHandle, names: readonly Buffer[], state: PatternState): AsyncGenerator<FoundEntry> {
    if (!mayHoldMatch(pattern, state)) return;
    if (names.length > limits.depth) return yield* find(folder, [names]);
    const child = await openChild(folder, names.at(-1)!).catch((error: unknown) => {
      // It was removed or replaced, or is another user's.
      if (error instanceof FileRefusal) return null;
      throw error;
    });
    if (child === null) return;
    try {
      yield* visit(child, names, state);
    } finally {
      await child.close();
    }
  }
  async function* find(folder: FileHandle, batch: readonly (readonly Buffer[])[]): AsyncGenerator<FoundEntry> {
    const wanted = batch.slice(0, left.files);
    if (wanted.length < batch.length) walk.problem = `it has more than ${limits.files} files that match`;
    left.files -= wanted.length;
    const found = await Promise.all(wanted.map((names) => readFacts(folder, names.at(-1)!)));
    for (const [at, stats] of found.entries())
      if (stats !== null) yield { kind: findKind(stats), names: wanted[at]!, stats };
  }
  return walk;
}

function findKind(stats: BigIntStats): EntryKind {
  if (stats.isFile()) return 'file';
  if (stats.isSymbolicLink()) return 'link';
  if (stats.isDirectory()) return 'folder';
  if (stats.isFIFO()) return 'pipe';
  return stats.isSocket() ? 'socket' : 'device';
}
