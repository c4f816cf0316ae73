/** The task of the program on KVM, a file of JSON. */
import type { QemuPieces } from '../../../sandbox/micro-vm/qemu/qemu.ts';

export interface KvmTask {
  readonly pieces: QemuPieces;
  /** The path of `voidbox-vmm`; absent if no row needs it. */
  readonly vmm?: string;
  /** The root disk of the dev image; absent if no row needs it. */
  readonly devDisk?: string;
  /** The path of the test whose VMs have a hostile kernel; absent if no row needs it. */
  readonly hostileKernelTest?: string;
  /** The product for rows about runs: its command line, its cache with all pieces, its examples. */
  readonly product?: { readonly program: string; readonly cacheDir: string; readonly examples: string };
  /** Whether a byte arrives at the serial port of the rows each second, as in the lab. */
  readonly hasPulse: boolean;
  /** Names of rows, in the order in which they run. */
  readonly rows: readonly string[];
  readonly bootTimeoutMs: number;
  /** Whether VMs of QEMU may start from a snapshot of the first one. */
  readonly snapshots: boolean;
}
