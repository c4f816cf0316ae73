/** Checkpoints of one VM with its memory. Each has all files of its chain, so none depends on the folder of another. */
import { rename, rmdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { CodedError } from '../../domain/errors/coded-error.ts';
import {
  CHECKPOINT_DISK,
  CHECKPOINT_LINKS,
  type CheckpointMemory,
  type CheckpointRecord,
  nameLinkFiles,
} from '../../domain/run/checkpoint.ts';
import type { MicroVm } from '../../native/index.ts';
import { linkMemory } from '../checkpoints/folder.ts';

/** The unit of `blocks` in the facts of a file. */
const BLOCK_BYTES = 512;

/** A chain of saved memories in the folder of a checkpoint. */
export interface SavedChain {
  readonly dir: string;
  readonly links: readonly string[];
}

export interface FullSaver {
  /**
   * Writes the disk at a path, and the files of the memory beside it.
   * @throws CodedError `vm/busy`, `vm/checkpoint-failed`, `store/io`
   */
  write(
    diskPath: string,
    pages: 'all' | 'changed',
    signal: AbortSignal,
  ): Promise<Pick<CheckpointRecord, 'usedBytes' | 'memory'>>;
  /** Notes the place of the files that were written last, to which the next difference refers. */
  keep(chain: SavedChain): void;
}

/**
 * @param from  the chain from which the VM continues; null: it has booted, or another process has launched it
 */
export function createFullSaver(
  vm: MicroVm,
  size: Omit<CheckpointMemory, 'links' | 'firstFile'>,
  from: SavedChain | null,
): FullSaver {
  let newest = from;
  return {
    async write(diskPath, pages, signal) {
      const before = pages === 'changed' ? newest : null;
      if (pages === 'changed' && before === null) throw createNoBaseError();
      if (before !== null && before.links.length >= CHECKPOINT_LINKS) throw createFullChainError();
      const partial = dirname(diskPath);
      const save = join(partial, 'save');
      const { id, parent, usedBytes } = await vm.checkpointFull(save, pages, signal);
      // From here on, a difference would refer to files that may not get their place.
      newest = null;
      if ((before?.links.at(-1) ?? null) !== parent) throw createNoBaseError();
      // A merge may have replaced the chain since. Its link has the name of the newest one.
      const links = before === null ? [] : await linkMemory(before.dir, partial);
      if ((links.at(-1) ?? null) !== parent) throw createNoBaseError();
      const names = nameLinkFiles(links.length);
      await rename(join(save, 'state'), join(partial, names.state));
      await rename(join(save, 'memory'), join(partial, names.memory));
      await rename(join(save, CHECKPOINT_DISK), diskPath);
      await rmdir(save);
      const shared = await measureLinks(partial, links.length);
      return { usedBytes: usedBytes + shared, memory: { ...size, links: [...links, id] } };
    },

    keep(chain) {
      newest = chain;
    },
  };
}

function createNoBaseError(): CodedError {
  return new CodedError(
    'vm/checkpoint-failed',
    'the VM has no earlier checkpoint with memory to which a difference could refer: save all memory',
  );
}

function createFullChainError(): CodedError {
  return new CodedError(
    'vm/checkpoint-failed',
    `the chain of the VM has ${CHECKPOINT_LINKS} links, the most: save all memory, or merge the chain (voidbox snapshot merge) and start a VM from it`,
  );
}

/** The room of the files of the first links. They count for each checkpoint, because each may be the last that has them. */
async function measureLinks(dir: string, count: number): Promise<number> {
  let usedBytes = 0;
  for (let at = 0; at < count; at += 1)
    for (const name of Object.values(nameLinkFiles(at)))
      usedBytes += (await stat(join(dir, name))).blocks * BLOCK_BYTES;
  return usedBytes;
}
