/** Makes the chain of a prepared sandbox with memory one link, from which VMs continue as before. */
import { CHECKPOINT_LINKS, type CheckpointRecord } from '../../domain/run/checkpoint.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { mergeChain } from '../../sandbox-api/merge-checkpoint.ts';
import type { Environment } from '../../setup/environment.ts';
import { withLock } from '../../setup/lock.ts';
import { resolveOptionalPieces } from '../../setup/resolve.ts';
import {
  claimMergeRoom,
  describePrepared,
  locateMergeLock,
  type PreparedSandbox,
} from '../../store/prepared-sandboxes.ts';
import { createUsageError } from '../app-error.ts';
import { findEntries } from './find-entries.ts';

export interface MergeWatcher {
  readonly signal: AbortSignal;
  readonly onProgress: (line: string) => void;
}

export interface PreparedMerge {
  readonly before: CheckpointRecord;
  readonly merged: PreparedSandbox;
}

/**
 * @param text  the name of a prepared sandbox, or the beginning of its id
 * @throws AppError for a text that names no prepared sandbox with memory; CodedError `vm/checkpoint-unfit`,
 * `vm/checkpoint-limit`, `store/io`, `host/not-ready`
 */
export async function mergePrepared(text: string, env: Environment, watcher: MergeWatcher): Promise<PreparedMerge> {
  const prepared = await findWithMemory(text, env);
  const { dir, record } = prepared;
  if (record.memory?.links.length === 1) return { before: record, merged: prepared };
  const { signal, onProgress } = watcher;
  const pieces = await resolveOptionalPieces(env, ['vmm'], { install: true, onProgress });
  const place = { stateDir: env.stateDir, maxMib: env.preparedMaxMib };
  const merge = async (): Promise<PreparedMerge> => {
    const claim = (mostBytes: number): void => claimMergeRoom(place, mostBytes);
    const { before, record: merged } = await mergeChain(dir, { program: pieces.get('vmm')!, claim, signal });
    return { before, merged: { dir, record: merged } };
  };
  const onWait = (): void => onProgress('another process merges a prepared sandbox: waiting for its end');
  return await withLock(locateMergeLock(env.stateDir), merge, onWait);
}

async function findWithMemory(text: string, env: Environment): Promise<PreparedSandbox> {
  const [entry] = await findEntries(env, [text]);
  if (entry!.kind === 'damaged')
    throw new CodedError('vm/checkpoint-unfit', `${entry!.damaged.dir} is damaged: ${entry!.damaged.problem}`);
  if (entry!.kind === 'prepared' && entry!.prepared.record.memory !== undefined) return entry!.prepared;
  const shown = entry!.kind === 'prepared' ? describePrepared(entry!.prepared.record) : entry!.snapshot.key;
  throw createUsageError(
    `${shown} has no chain, because it has no memory of a VM that ran`,
    `Prepared sandboxes made with --full and --diff have one, of at most ${CHECKPOINT_LINKS} links: voidbox snapshot list`,
  );
}
