import { formatBytes } from '../../../domain/units/bytes.ts';
import { formatDurationMs } from '../../../domain/units/duration.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import type { DiskState } from '../../../client/vms/disk-state.ts';

/** Describes what a full or nearly full disk holds up; no lines if the disk has room. */
export function describeDisk(disk: DiskState, stateDir: string): string[] {
  const lines = disk.waiting.map((vm) => {
    const goesOn = `continues automatically when ${formatBytes(vm.neededBytes)} are free`;
    return `the disk is full: vm ${sanitizeLine(vm.vmKey)} has waited ${formatDurationMs(vm.forMs)} for space; it ${goesOn}, and fails after ${formatDurationMs(vm.limitMs)}`;
  });
  if (disk.isLow) lines.push(describeRoom(disk, stateDir));
  return lines;
}

export function describeRoom(
  { availableBytes, sizeBytes, floorBytes }: Pick<DiskState, 'availableBytes' | 'sizeBytes' | 'floorBytes'>,
  stateDir: string,
): string {
  return `${formatBytes(availableBytes)} of ${formatBytes(sizeBytes)} are free on the disk of ${sanitizeLine(stateDir)}: no VM is started with less than ${formatBytes(floorBytes)}, and writers wait`;
}

/** The remedy for a folder of another format, which `prune` refuses. */
export const FREE_SPACE = 'free space on that disk';
export const MAKE_ROOM = `${FREE_SPACE}; \`voidbox prune\` deletes old runs`;

/** Why the disk holds work up, with the remedy. */
export function describeLowDisk(disk: Parameters<typeof describeRoom>[0], stateDir: string): string {
  return `${describeRoom(disk, stateDir)}; ${MAKE_ROOM}`;
}
