/** Launches that the backend refuses before it starts a keeper. The keeper is a script that only describes its host. */
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { LaunchSpec, SandboxBackend } from '../../../activities/ports/sandbox.ts';
import { createNativeBackend } from './backend.ts';

const SPEC: LaunchSpec = { mode: 'vmm', isolation: 'microvm', memoryMib: 64, vcpus: 1, diskMib: 64, mounts: [] };
const KEY = { runId: 'run', scope: 'build', instance: [], generation: 0 };

let folder: string;
beforeEach(async () => (folder = await mkdtemp(join(tmpdir(), 'voidbox-native-'))));
afterEach(() => rm(folder, { recursive: true, force: true }));

async function backendOn(kvm: string): Promise<SandboxBackend> {
  const keeper = join(folder, 'voidbox-vm');
  const host = JSON.stringify({ kvm, memoryTotalBytes: 1, memoryAvailableBytes: 1 });
  await writeFile(
    keeper,
    `#!/bin/sh\n[ "$1" = host ] && echo '${host}' || echo '{"error":{"code":"x","message":"launched"}}'\n`,
  );
  await chmod(keeper, 0o755);
  return createNativeBackend({
    vmsDir: join(folder, 'vms'),
    keeper,
    hostMemoryMib: () => 1024,
    extra: (name) => Promise.resolve(`/extra/${name}`),
    pieces: () =>
      Promise.resolve({
        keeper,
        qemu: '/q',
        bwrap: '/b',
        mke2fs: '/m',
        kernel: { path: '/k', kind: 'debian' },
        initramfs: '/i',
      }),
  });
}

function launch(backend: SandboxBackend): Promise<unknown> {
  return backend.launch(KEY, SPEC, AbortSignal.timeout(10_000));
}

test('a host without hardware KVM is not ready, and no keeper is launched', async () => {
  await expect(launch(await backendOn('emulated'))).rejects.toMatchObject({ code: 'host/not-ready' });
  await expect(launch(await backendOn('hardware'))).rejects.toThrow('launched');
});
