import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** A run directory as `voidbox-vm status` describes it; see docs/keeper.md. */
export interface VmStatus {
  readonly dir: string;
  readonly state: 'running' | 'lost' | 'stopped' | 'new';
  readonly vmKey: string | null;
}

const STATUS_LIMIT_MS = 10_000;
const run = promisify(execFile);

/** Every run directory below the state folder; alive or dead is the keeper program's word, by the lock. Without VMs it is not asked for. */
export async function listVms(stateDir: string, findKeeper: () => Promise<string>): Promise<readonly VmStatus[]> {
  const folder = join(stateDir, 'vms');
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  const vmNames = names.filter((candidate) => /^[0-9a-f]{16}$/.test(candidate)).toSorted();
  if (vmNames.length === 0) return [];
  const keeper = await findKeeper();
  const vms: VmStatus[] = [];
  for (const name of vmNames) vms.push(await readStatus(join(folder, name), keeper));
  return vms;
}

async function readStatus(dir: string, keeper: string): Promise<VmStatus> {
  const { stdout } = await run(keeper, ['status', '--dir', dir], { timeout: STATUS_LIMIT_MS });
  const { state } = JSON.parse(stdout) as { readonly state: VmStatus['state'] };
  return { dir, state, vmKey: await readVmKey(dir) };
}

/** The intent is written before anything else of a VM; null in a directory that has none, or that was removed just now. */
async function readVmKey(dir: string): Promise<string | null> {
  try {
    const intent = JSON.parse(await readFile(join(dir, 'intent.json'), 'utf8')) as { readonly vmKey?: unknown };
    return typeof intent.vmKey === 'string' ? intent.vmKey : null;
  } catch {
    return null;
  }
}
