/** Makes a read-only ext4 disk from a tree: equal trees give equal bytes for every user. */
import { chmod, lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { writeFile } from 'node:fs/promises';
import { isRoot } from '../pieces/apt.ts';
import { findOnPath } from '../pieces/find-program.ts';
import type { SetupContext } from '../pieces/piece.ts';
import { cutToLastLines, type ProgramResult, runProgram } from '../pieces/run-program.ts';
import { SetupError } from '../setup-error.ts';
import { FILE_TIME_SECONDS } from './root-tree.ts';

const BLOCK_BYTES = 4096;
const INODE_BYTES = 256;
/** Inodes in addition to the tree's: those that ext4 reserves, and one for lost+found. */
const SPARE_INODES = 200;
/** Space for group descriptors, bitmaps, blocks of long extents and growing folders. */
const SPARE_BYTES = 16 << 20;
/**
 * Bytes of a folder's entry in addition to the name: its head, padding to four bytes, and unused space at the end of a
 * block.
 */
const ENTRY_BYTES = 16;
/** An arbitrary value, which must never change. */
const DISK_UUID = '6f1d9c52-8e0b-4c7e-9d0a-2f3b5a7c9e11';
const MAKE_TIMEOUT_MS = 300_000;
/** A slow disk of a busy machine; with this speed, the largest image takes a quarter of an hour more. */
const LEAST_BYTES_PER_SECOND = 10_000_000;

/** Programs of the same package as mke2fs. */
export const EXT4_PROGRAMS = ['debugfs', 'dumpe2fs'] as const;

/** The number of inodes and bytes of a tree. */
export interface TreeSize {
  readonly inodes: number;
  readonly bytes: number;
}

/** Makes the disk. All files belong to root, whichever user made the tree. */
export async function makeExt4(context: SetupContext, tree: string, disk: string, size?: TreeSize): Promise<void> {
  const { inodes, bytes } = size ?? (await measure(tree));
  const mke2fs = await context.need('mke2fs');
  const blocks = Math.ceil((bytes * 1.02 + (inodes + SPARE_INODES) * INODE_BYTES + SPARE_BYTES) / BLOCK_BYTES);
  const args = [
    '-q',
    '-F',
    '-t',
    'ext4',
    '-b',
    String(BLOCK_BYTES),
    '-I',
    String(INODE_BYTES),
    '-m',
    '0',
    '-O',
    '^has_journal,^resize_inode,^huge_file',
    '-N',
    String(inodes + SPARE_INODES),
    '-U',
    DISK_UUID,
    '-E',
    `hash_seed=${DISK_UUID},root_owner=0:0,lazy_itable_init=0,nodiscard`,
    '-d',
    tree,
    disk,
    String(blocks),
  ];
  // mke2fs copies owners from the tree. If this process is not root, it runs in a user namespace in which it is root.
  const [program, before] = isRoot()
    ? [mke2fs.path, []]
    : [(await context.need('bwrap')).path, sandboxAsRoot(mke2fs.path)];
  requireSuccess('mke2fs', await runProgram(context.env, program, [...before, ...args], options(bytes)));
  await settleTimes(context, disk, bytes);
  await chmod(disk, 0o644);
}

function sandboxAsRoot(program: string): readonly string[] {
  return ['--unshare-user', '--uid', '0', '--gid', '0', '--dev-bind', '/', '/', '--', program];
}

function options(bytes: number): Parameters<typeof runProgram>[3] {
  const time = String(FILE_TIME_SECONDS);
  const timeoutMs = MAKE_TIMEOUT_MS + Math.ceil((bytes / LEAST_BYTES_PER_SECOND) * 1_000);
  return { timeoutMs, variables: { E2FSPROGS_FAKE_TIME: time, SOURCE_DATE_EPOCH: time } };
}

/** Sets fixed times: mke2fs copies a file's access and change times from the tree, in which they cannot be set. */
async function settleTimes(context: SetupContext, disk: string, bytes: number): Promise<void> {
  const [debugfs, dumpe2fs] = EXT4_PROGRAMS.map((name) => findOnPath(context.env, [name])[0] ?? name);
  const listed = requireSuccess('dumpe2fs', await runProgram(context.env, dumpe2fs!, [disk], options(bytes)));
  const commands = parseUsedInodes(listed.stdout).flatMap((inode) =>
    ['atime', 'ctime', 'crtime'].map((field) => `set_inode_field <${inode}> ${field} @${FILE_TIME_SECONDS}\n`),
  );
  const script = `${disk}.commands`;
  await writeFile(script, commands.join(''));
  requireSuccess('debugfs', await runProgram(context.env, debugfs!, ['-w', '-f', script, disk], options(bytes)));
}

/** Parses the output of dumpe2fs for each group: its inodes, and the ranges of free ones. */
export function parseUsedInodes(text: string): readonly number[] {
  const count = Number(/^Inode count:\s+(\d+)$/m.exec(text)?.[1]);
  const first = Number(/^First inode:\s+(\d+)$/m.exec(text)?.[1]);
  if (!(count > 0) || !(first > 0)) throw new Error('dumpe2fs says neither how many inodes there are nor the first');
  const free = new Set<number>();
  for (const [, ranges = ''] of text.matchAll(/^ {2}Free inodes: (.*)$/gm))
    for (const range of ranges.split(', ').filter((part) => part !== '')) {
      const [from = 0, to = from] = range.split('-').map(Number);
      for (let inode = from; inode <= to; inode += 1) free.add(inode);
    }
  const own = Array.from({ length: count - first + 1 }, (_, index) => first + index);
  return [2, ...own.filter((inode) => !free.has(inode))];
}

async function measure(tree: string): Promise<TreeSize> {
  const entries = await readdir(tree, { recursive: true, withFileTypes: true });
  let bytes = 0;
  const folders = new Map<string, number>();
  for (const entry of entries) {
    const { parentPath, name } = entry;
    folders.set(parentPath, (folders.get(parentPath) ?? 0) + ENTRY_BYTES + Buffer.byteLength(name));
    if (!entry.isDirectory()) bytes += toBlocks((await lstat(join(parentPath, name))).size);
    else if (!folders.has(join(parentPath, name))) folders.set(join(parentPath, name), 0);
  }
  // The size of a folder in the tree is not used, because it differs between file systems.
  for (const named of folders.values()) bytes += toBlocks(named);
  return { inodes: entries.length, bytes };
}

function toBlocks(bytes: number): number {
  return Math.max(1, Math.ceil(bytes / BLOCK_BYTES)) * BLOCK_BYTES;
}

function requireSuccess(program: string, result: ProgramResult): ProgramResult {
  if (result.exitCode === 0) return result;
  throw new SetupError(
    `${program} cannot make the disk of the image:\n${cutToLastLines(result)}`,
    'Check the free space of the cache folder.',
  );
}
