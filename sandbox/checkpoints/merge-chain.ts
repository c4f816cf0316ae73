/**
 * Makes the chain of a checkpoint one link. The files of the result lie beside the chain until the record names them, so
 * a merge that breaks off changes nothing. Its caller lets only one merge of a checkpoint run.
 */
import { constants } from 'node:fs';
import { type FileHandle, open, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { CodedError, isCodedError } from '../../domain/errors/coded-error.ts';
import {
  CHECKPOINT_DISK,
  CHECKPOINT_RECORD,
  type CheckpointMemory,
  type CheckpointRecord,
  type LinkFiles,
  listLinkFiles,
  nameLinkFiles,
} from '../../domain/run/checkpoint.ts';
import { syncFolder } from '../../files/publish-folder.ts';
import { type LinkDescriptors, type MergeRefusal, runMerge } from '../micro-vm/voidbox-vmm/merge-process.ts';
import { readCheckpoint, replaceRecord } from './folder.ts';

export interface MergeOptions {
  /** The path of `voidbox-vmm`. */
  readonly program: string;
  /** Called before the merge, with the most room that its result can use. @throws CodedError if there is no room */
  readonly claim: (mostBytes: number) => void;
  readonly signal: AbortSignal;
}

export interface MergedCheckpoint {
  /** The checkpoint as it was. */
  readonly before: CheckpointRecord;
  /** The checkpoint with one link. */
  readonly record: CheckpointRecord;
}

const MIB = 1_048_576;
/** The unit of `blocks` in the facts of a file. */
const BLOCK_BYTES = 512;
/** The bits of a mode for all but the owner. */
const OTHERS = 0o077;
/** Opening does not wait for a pipe, and does not follow a link: another process may have put one here. */
const READ = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW;
const OWN_FILE = new RegExp(`^(?:(?:state|memory)-\\d+|${CHECKPOINT_RECORD.replace('.', '\\.')}\\.partial)$`);

/**
 * Merges the chain of a checkpoint with memory. A chain of one link stays as it is.
 * @throws CodedError `vm/checkpoint-unfit` that names a damaged link, `store/io`, or the error of `claim`; the chain is
 * unchanged then
 */
export async function mergeChain(dir: string, options: MergeOptions): Promise<MergedCheckpoint> {
  const before = readCheckpoint(dir);
  const { memory } = before;
  if (memory === undefined) throw new CodedError('vm/checkpoint-unfit', `the checkpoint ${dir} has no memory`);
  // The files that a killed merge has left, of before or after it replaced the record.
  await syncFolder(dir);
  await removeFilesBeyond(dir, listLinkFiles(memory));
  if (memory.links.length === 1) return { before, record: before };
  const into = nameLinkFiles((memory.firstFile ?? 0) + memory.links.length);
  const opened: FileHandle[] = [];
  try {
    await mergeFiles(dir, memory, into, options, opened);
    const merged = {
      ...memory,
      links: memory.links.slice(-1),
      firstFile: (memory.firstFile ?? 0) + memory.links.length,
    };
    const record = { ...before, usedBytes: await measure(dir, [into]), memory: merged };
    options.signal.throwIfAborted();
    await replaceRecord(dir, record);
    await removeFilesBeyond(dir, [into]).catch(() => undefined);
    return { before, record };
  } catch (error) {
    if (readMemory(dir)?.firstFile === memory.firstFile)
      await removeFilesBeyond(dir, listLinkFiles(memory)).catch(() => undefined);
    if (isCodedError(error) || options.signal.aborted) throw error;
    throw new CodedError('store/io', `cannot merge the chain of ${dir}: ${(error as Error).message}`, { cause: error });
  } finally {
    await Promise.all(opened.map((file) => file.close()));
  }
}

/** Writes the files of the result to the disk. `opened` gets all files that its caller closes. */
async function mergeFiles(
  dir: string,
  memory: CheckpointMemory,
  into: LinkFiles,
  { program, claim, signal }: MergeOptions,
  opened: FileHandle[],
): Promise<void> {
  const openLink = async (names: LinkFiles, at: number): Promise<LinkDescriptors> => {
    const describe = (name: string): string => nameLink(dir, memory, at, name);
    const state = await openOwn(join(dir, names.state), describe(names.state), opened);
    const pages = await openOwn(join(dir, names.memory), describe(names.memory), opened);
    return { state: state.fd, memory: pages.fd };
  };
  const chain: LinkDescriptors[] = [];
  let linkBytes = 0;
  for (const [at, names] of listLinkFiles(memory).entries()) {
    chain.push(await openLink(names, at));
    for (const file of opened.slice(-2)) linkBytes += (await file.stat()).blocks * BLOCK_BYTES;
  }
  claim(Math.min(linkBytes, (memory.memoryMib + 4) * MIB));
  const state = await makeOwn(join(dir, into.state), opened);
  const pages = await makeOwn(join(dir, into.memory), opened);
  await pages.truncate(memory.memoryMib * MIB);
  const refusal = await runMerge(program, chain, { state: state.fd, memory: pages.fd }, signal);
  if (refusal !== null) throw explain(dir, memory, refusal);
  await state.sync();
  await pages.sync();
}

/** @throws CodedError `vm/checkpoint-unfit` for a file that is not private to this user */
async function openOwn(path: string, what: string, opened: FileHandle[]): Promise<FileHandle> {
  const createError = (why: string, cause?: unknown): CodedError =>
    new CodedError('vm/checkpoint-unfit', `${what}: ${why}`, { cause });
  const file = await open(path, READ).catch((error: Error) => {
    throw createError(error.message, error);
  });
  opened.push(file);
  const found = await file.stat();
  if (!found.isFile()) throw createError('it is not a regular file');
  if (found.uid !== process.geteuid!() || (found.mode & OTHERS) !== 0)
    throw createError('another user could have changed it');
  return file;
}

async function makeOwn(path: string, opened: FileHandle[]): Promise<FileHandle> {
  const file = await open(path, 'wx+', 0o600);
  opened.push(file);
  return file;
}

function explain(dir: string, memory: CheckpointMemory, { link, file, text }: MergeRefusal): CodedError {
  if (link === null || file === null) return new CodedError('store/io', `cannot merge the chain of ${dir}: ${text}`);
  const name = listLinkFiles(memory)[link]?.[file] ?? file;
  return new CodedError('vm/checkpoint-unfit', `${nameLink(dir, memory, link, name)}: ${text}`);
}

function nameLink(dir: string, { links }: CheckpointMemory, at: number, name: string): string {
  return `the chain of ${dir} cannot be merged: link ${at + 1} of ${links.length}, ${name}`;
}

function readMemory(dir: string): CheckpointMemory | null {
  try {
    return readCheckpoint(dir).memory ?? null;
  } catch {
    return null;
  }
}

/** Removes the files of other links. A process that has them open keeps them. */
async function removeFilesBeyond(dir: string, kept: readonly LinkFiles[]): Promise<void> {
  const names = new Set(kept.flatMap(({ state, memory }) => [state, memory]));
  for (const name of await readdir(dir))
    if (OWN_FILE.test(name) && !names.has(name)) await rm(join(dir, name), { force: true });
}

async function measure(dir: string, links: readonly LinkFiles[]): Promise<number> {
  const names = [CHECKPOINT_DISK, ...links.flatMap(({ state, memory }) => [state, memory])];
  const blocks = await Promise.all(names.map(async (name) => (await stat(join(dir, name))).blocks));
  return blocks.reduce((sum, each) => sum + each * BLOCK_BYTES, 0);
}
