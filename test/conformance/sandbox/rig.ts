/** One backend under test: a shared VM, keys, host folders, and their end. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { LaunchSpec, Sandbox, SandboxBackend, VmKey } from '../../../activities/ports/sandbox.ts';
import { limit, type Conformance } from './behaviour.ts';

export interface ConformanceRig extends Conformance {
  /** Removes the host folders of a row. */
  clear(): Promise<void>;
  /** Ends the shared VM and removes everything. */
  dispose(): Promise<void>;
}

export async function createConformanceRig(backend: SandboxBackend, mode: LaunchSpec['mode']): Promise<ConformanceRig> {
  const base = await mkdtemp(join(tmpdir(), 'voidbox-conformance-'));
  const mountedDir = join(base, 'mounted');
  const runId = `conformance-${process.pid}-${Date.now().toString(36)}`;
  let keyCount = 0;
  const newKey = (): VmKey => ({ runId, scope: `scope-${(keyCount += 1)}`, instance: [], generation: 0 });
  const sharedKey: VmKey = { runId, scope: 'shared', instance: [], generation: 0 };
  const plan: LaunchSpec = {
    mode,
    isolation: backend.isolation,
    memoryMib: 256,
    vcpus: 1,
    diskMib: 256,
    mounts: [{ hostPath: mountedDir, guestPath: '/data', mode: 'ro' }],
  };
  let shared: Sandbox | null = null;
  const hostDirs: string[] = [];

  await mkdir(mountedDir);
  await writeFile(join(mountedDir, 'hello.txt'), 'hello from the host\n');

  return {
    backend,
    plan,
    mountedDir,
    newKey,
    sharedKey,
    async shared() {
      shared = await backend.launch(sharedKey, plan, limit());
      return shared;
    },
    async hostDir() {
      const dir = await mkdtemp(join(base, 'host-'));
      hostDirs.push(dir);
      return dir;
    },
    async clear() {
      for (const dir of hostDirs.splice(0)) await rm(dir, { recursive: true, force: true });
    },
    async dispose() {
      shared?.detach();
      await backend.release(sharedKey);
      await rm(base, { recursive: true, force: true });
    },
  };
}
