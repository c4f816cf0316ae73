/** The disk of a mock VM in a checkpoint: its files as JSON. */
import { Buffer, constants } from 'node:buffer';
import { open, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { CheckpointTarget } from '../../activities/ports/sandbox.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { CHECKPOINT_DISK, type CheckpointRecord } from '../../domain/run/checkpoint.ts';
import { readFileWithin } from '../../files/open-file.ts';
import { readCheckpoint, requireFit, writeCheckpoint } from '../checkpoints/folder.ts';
import type { MockFiles, MockNode } from './files.ts';
import type { MockVm } from './vm.ts';

/** Folders that a guest has in memory. */
const IN_MEMORY = ['/dev', '/proc', '/run', '/sys'] as const;

type SavedNode =
  | { readonly path: string; readonly kind: 'file'; readonly mode: number; readonly base64: string }
  | { readonly path: string; readonly kind: 'dir'; readonly mode: number }
  | { readonly path: string; readonly kind: 'symlink'; readonly target: string };

export async function saveMockDisk(vm: MockVm, target: CheckpointTarget): Promise<CheckpointRecord> {
  if (target.memory !== undefined)
    throw new CodedError('vm/checkpoint-failed', `mock VM ${vm.name} has no memory to save`);
  const { diskMib, root, mountPaths } = vm.disk;
  const left = [...IN_MEMORY, ...mountPaths];
  const nodes = [...vm.files.listNodes()]
    .filter(([path]) => !left.some((folder) => path === folder || path.startsWith(`${folder}/`)))
    .map(([path, node]) => toSaved(path, node));
  const what = { diskMib, vmm: 'mock', root, kernelKind: 'none' };
  return await writeCheckpoint(target, what, async (path) => {
    const file = await open(path, 'wx', 0o600);
    try {
      await file.writeFile(JSON.stringify(nodes));
      await file.sync();
    } finally {
      await file.close();
    }
    return { usedBytes: (await stat(path)).size };
  });
}

/** @throws CodedError `vm/checkpoint-unfit` */
export async function loadMockDisk(vm: MockVm, dir: string): Promise<void> {
  requireFit(`mock VM ${vm.name}`, readCheckpoint(dir), { ...vm.disk, isMock: true });
  const rule = { roots: [dir], mostBytes: constants.MAX_STRING_LENGTH };
  try {
    const nodes = JSON.parse(readFileWithin(join(dir, CHECKPOINT_DISK), rule).toString()) as readonly SavedNode[];
    for (const node of nodes) restore(vm.files, node);
  } catch (error) {
    throw new CodedError(
      'vm/checkpoint-unfit',
      `the checkpoint ${dir} cannot be used: ${CHECKPOINT_DISK}: ${(error as Error).message}`,
      { cause: error },
    );
  }
}

function toSaved(path: string, node: MockNode): SavedNode {
  if (node.kind !== 'file') return { path, ...node };
  return { path, kind: 'file', mode: node.mode, base64: node.body.toString('base64') };
}

function restore(files: MockFiles, node: SavedNode): void {
  if (node.kind === 'dir') files.makeDir(node.path, node.mode);
  else if (node.kind === 'symlink') files.link(node.path, node.target);
  else files.write(node.path, Buffer.from(node.base64, 'base64'), node.mode);
}
