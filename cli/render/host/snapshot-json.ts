import type { Snapshot } from '../../../setup/snapshots/snapshot-store.ts';

/** A snapshot as `--json` shows it; documented in docs/reference/snapshots.md and kept stable. */
export function toSnapshotJson({ record, ...snapshot }: Snapshot): object {
  return {
    ...snapshot,
    createdAtMs: record?.createdAtMs ?? null,
    vmm: record?.vmm ?? null,
    memoryMib: record?.memoryMib ?? null,
    vcpus: record?.vcpus ?? null,
    rootDiskBytes: record?.rootDiskBytes ?? null,
    hasMounts: record?.hasMounts ?? null,
  };
}
