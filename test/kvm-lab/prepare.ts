/** Prepares rows on KVM for a test file: the pieces of set-up, and the place where the rows run. */
import { dirname } from 'node:path';
import { readEnvironment } from '../../setup/environment.ts';
import { makeContext, pieceSource } from '../../setup/pieces/context.ts';
import { readLabModules } from '../../setup/pieces/debian-kernel.ts';
import { resolveHostPieces } from '../../setup/resolve.ts';
import { nameRow } from './program/kvm-rows.ts';
import type { KvmTask } from './program/task.ts';
import { type RowLimits, type RowResults, runRows } from './run-rows.ts';
import { findPlace, startOnKvm } from './start-on-kvm.ts';

/** QEMU needs up to a minute to boot a guest in the lab of a busy machine. */
const BOOT_TIMEOUT_MS = 90_000;

export interface RowsOnKvm {
  readonly rows: readonly string[];
  readonly snapshots: KvmTask['snapshots'];
  readonly limits: RowLimits;
}

/**
 * Starts the rows, and prints where they run and whether they needed a retry.
 * @throws Error with the remedy on a machine that has neither KVM nor the lab
 */
export async function runRowsOnKvm({ rows, snapshots, limits }: RowsOnKvm): Promise<RowResults> {
  const environment = readEnvironment();
  const pieces = await resolveHostPieces(environment, { install: true, kernelKind: 'debian' });
  // On a host without KVM, set-up itself gets no VMM.
  const need = pieceSource(await makeContext(environment, (line) => console.log(line)), true);
  const { path: busybox } = await need('busybox');
  const place = await findPlace(pieces, { busybox, modules: readLabModules(dirname(pieces.kernel.path)) });
  const where = place.kind === 'host' ? 'KVM of this host' : 'KVM of the lab, a machine that QEMU emulates';
  console.log(`${rows.length} rows run on the ${where}.`);
  const vmm = rows.some((row) => row.startsWith(nameRow('vmm', ''))) ? { vmm: (await need('vmm')).path } : {};
  const start = startOnKvm(place, { pieces, ...vmm, snapshots, bootTimeoutMs: BOOT_TIMEOUT_MS });
  return runRows(rows, start, limits, {
    onRetry: (text) => console.log(text),
    onEnd: (line) => {
      const { kind, row, tookMs } = line;
      const error = kind === 'failed' ? `\n${line.error}` : '';
      console.log(`${(tookMs / 1000).toFixed(1).padStart(6)} s  ${kind}  ${row}${error}`);
    },
  });
}
