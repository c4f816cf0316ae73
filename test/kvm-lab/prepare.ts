/** Prepares rows on KVM for a test file: the pieces of set-up, and the place where the rows run. */
import { appendFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { QemuPieces } from '../../sandbox/micro-vm/qemu/qemu.ts';
import { readEnvironment } from '../../setup/environment.ts';
import { makeContext, pieceSource } from '../../setup/pieces/context.ts';
import { readLabModules } from '../../setup/pieces/debian-kernel.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { KVM_ROWS, KVM_RUN_FILE } from '../../setup/kvm-record.mjs';
import { resolveHostPieces } from '../../setup/resolve.ts';
import { SHARED_FOLDER } from '../../setup/test-report.mjs';
import { buildHostileKernelTest } from './hostile-kernel.ts';
import { HOSTILE_KERNEL, listRows, nameRow, SHARED_DISK } from './program/kvm-rows.ts';
import type { KvmTask } from './program/task.ts';
import { type RowLimits, type RowResults, runRows } from './run-rows.ts';
import { findPlace, startOnKvm } from './start-on-kvm.ts';

/** QEMU needs up to a minute to boot a guest in the lab of a busy machine. */
const BOOT_TIMEOUT_MS = 90_000;

export interface RowsOnKvm {
  readonly rows: readonly string[];
  readonly snapshots: KvmTask['snapshots'];
  readonly limits: RowLimits;
  /** The pieces of the guests; absent: those with Debian's kernel. The lab itself always has Debian's. */
  readonly guests?: QemuPieces;
}

export interface KvmResults extends RowResults {
  /** Says where all rows ran, for the record of `npm run test:kvm`, which is written if they passed. */
  readonly noteRun: () => void;
}

/** Returns the rows that run: all of them, or those whose names match `VOIDBOX_TEST_ROWS`. */
export function selectRows(rows: readonly string[]): readonly string[] {
  const wanted = process.env[KVM_ROWS];
  return wanted === undefined ? rows : rows.filter((row) => new RegExp(wanted).test(row));
}

/**
 * Starts the rows, and prints where they run and whether they needed a retry.
 * @throws Error with the remedy on a machine that has neither KVM nor the lab
 */
export async function runRowsOnKvm({ rows, snapshots, limits, guests }: RowsOnKvm): Promise<KvmResults> {
  const environment = { ...readEnvironment(), kernelKind: 'debian' } as const;
  const pieces = await resolveHostPieces(environment, { install: true, kernelKind: 'debian' });
  // On a host without KVM, set-up itself gets no VMM.
  const context = await makeContext(environment, (line) => console.log(line));
  const need = pieceSource(context, true);
  const { path: busybox } = await need('busybox');
  const place = await findPlace(pieces, { busybox, modules: readLabModules(dirname(pieces.kernel.path)) });
  const where = place.kind === 'host' ? 'KVM of this host' : 'KVM of the lab, a machine that QEMU emulates';
  console.log(`${rows.length} rows run on the ${where}.`);
  const vmm = rows.some((row) => row.startsWith(nameRow('vmm', ''))) ? { vmm: (await need('vmm')).path } : {};
  const dev = rows.includes(nameRow('vmm', SHARED_DISK.name)) ? { devDisk: (await need('dev')).path } : {};
  const hasHostileKernel = listRows('vmm', HOSTILE_KERNEL).some((row) => rows.includes(row));
  const hostile = hasHostileKernel ? { hostileKernelTest: await buildHostileKernelTest(context) } : {};
  // The product finds this record in the lab, where the cache cannot be written.
  await resolveHostPieces(environment, { install: true });
  const root = findPackageRoot();
  const product = {
    program: join(root, 'bin', 'voidbox.js'),
    cacheDir: environment.cacheDir,
    examples: join(root, 'examples'),
  };
  const start = startOnKvm(place, {
    pieces: guests ?? pieces,
    ...vmm,
    ...dev,
    ...hostile,
    product,
    snapshots,
    bootTimeoutMs: BOOT_TIMEOUT_MS,
  });
  let retries = 0;
  const results = runRows(rows, start, limits, {
    onRetry: (text) => {
      retries += 1;
      console.log(text);
    },
    onEnd: (line) => {
      const { kind, row, tookMs } = line;
      const error = kind === 'failed' ? `\n${line.error}` : '';
      console.log(`${(tookMs / 1000).toFixed(1).padStart(6)} s  ${kind}  ${row}${error}`);
    },
  });
  return {
    ...results,
    noteRun: () => {
      const shared = process.env[SHARED_FOLDER];
      if (shared === undefined) return;
      const run = { place: place.kind === 'host' ? 'of the host' : 'of the lab', passed: rows.length, retries };
      appendFileSync(join(shared, KVM_RUN_FILE), `${JSON.stringify(run)}\n`);
    },
  };
}
