/** Leaves snapshots of booted guests as keepers write them. */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export const SNAPSHOT_KEY = 'a1'.repeat(32);

export interface LeftSnapshot {
  readonly key?: string;
  readonly hostBoot?: string;
  readonly memoryMib?: number;
  readonly vcpus?: number;
  readonly mounts?: boolean;
  readonly rootDiskBytes?: number;
  /** Its memory is in a file of its own, with one page and holes. */
  readonly hasMemory?: boolean;
  readonly kernel?: string;
  readonly mountNamespace?: number;
}

/** @returns the folder of the snapshot */
export function leaveSnapshot(
  dir: string,
  {
    key = SNAPSHOT_KEY,
    hostBoot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim(),
    memoryMib = 256,
    vcpus = 1,
    mounts = false,
    rootDiskBytes,
    hasMemory = false,
    kernel = '/k',
    mountNamespace = statSync('/proc/self/ns/mnt').ino,
  }: LeftSnapshot = {},
): string {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const own = join(dir, key);
  mkdirSync(own, { mode: 0o700 });
  const write = (name: string, content: string): void => writeFileSync(join(own, name), content, { mode: 0o600 });
  const state = '0123456789';
  write('state', state);
  if (hasMemory) {
    write('memory', 'm'.repeat(4_096));
    truncateSync(join(own, 'memory'), memoryMib * 1_048_576);
  }
  const args = ['-m', `${memoryMib}M`, '-smp', String(vcpus), ...(mounts ? ['-device', 'virtio-9p-pci,fsdev=m'] : [])];
  const record = {
    key,
    parts: {
      format: 1,
      protocol: 1,
      keeper: '0.1.0',
      hostBoot,
      vmm: 'qemu tcg',
      hostCpu: null,
      cpuFeatures: null,
      kvmModules: null,
      program: '/usr/bin/qemu',
      kernel,
      initramfs: '/i',
      rootDiskBytes: rootDiskBytes ?? null,
      arguments: args,
    },
    mountNamespace,
    tscKhz: 1,
    memoryMib,
    stateBytes: 10,
    sha256: createHash('sha256').update(state).digest('hex'),
    createdAtMs: Date.now(),
    ...(hasMemory ? { memoryBytes: 4_096, memorySha256: 'd'.repeat(64) } : {}),
  };
  // A number of nanoseconds has more digits than JavaScript writes.
  const timeOf = (name: string): bigint => statSync(join(own, name), { bigint: true }).mtimeNs;
  const times = `"stateMtimeNs":${timeOf('state')}${hasMemory ? `,"memoryMtimeNs":${timeOf('memory')}` : ''}`;
  write('snapshot.json', `${JSON.stringify(record).slice(0, -1)},${times}}`);
  write('used', '');
  return own;
}
