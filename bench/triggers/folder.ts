/** A watched folder with as many files as one may have: its first scan, the scans without a change, and a new file. */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { FOLDER_LIMITS } from '../../domain/sources/file-rules.ts';
import { processCpuMs, residentMib } from '../measure.ts';
import type { TriggerStack } from './stack.ts';

/** One less than the limit, because a file is added. */
export const FILES = FOLDER_LIMITS.files - 1;
/** The pause after a scan is nine times its CPU time, and two scans must agree. */
const LIMIT_MS = 3 * 60_000;
const LOOK_MS = 200;
const IDLE_MS = 60_000;
const SETTLE_MS = 10_000;

export interface FolderFigures {
  readonly firstSecs: number;
  readonly firstServiceCpuSecs: number;
  readonly firstDatabaseCpuSecs: number;
  readonly beforeMib: number;
  /** The most since the start of the service. */
  readonly peakMib: number;
  readonly idlePercent: number;
  readonly newFileSecs: number;
}

function writeSpec(folder: string): string {
  return JSON.stringify({
    kind: 'workflow',
    name: 'watch',
    sandbox: { mode: 'mock', isolation: 'none' },
    on: [{ name: 'files', folder: { path: folder, match: '*.csv' } }],
    workflow: { steps: [{ name: 'a', run: { program: 'echo', args: ['x'] } }] },
  });
}

export async function measureFolder(
  stack: TriggerStack,
  workDir: string,
  say: (line: string) => void,
): Promise<FolderFigures> {
  const folder = join(workDir, 'incoming');
  mkdirSync(folder);
  for (let at = 0; at < FILES; at += 1) writeFileSync(join(folder, `${at}.csv`), `${at}\n`);
  const spec = join(workDir, 'watch.yaml');
  writeFileSync(spec, writeSpec(folder));
  await stack.run(['up', '--allow-watch', folder]);
  const pool = new pg.Pool({ host: stack.socketDir, user: 'voidbox', database: 'postgres', max: 1 });
  const readCpuMs = (): readonly [number, number] => [processCpuMs(stack.servicePid), stack.readPostgresCpuMs()];
  try {
    const beforeMib = residentMib(stack.servicePid);
    const before = readCpuMs();
    const beganMs = performance.now();
    await stack.run(['deploy', spec]);
    await awaitRows(pool, 'SELECT count(*)::int AS rows FROM voidbox.source_events', FILES);
    const firstSecs = (performance.now() - beganMs) / 1_000;
    const first = readCpuMs().map((cpuMs, at) => (cpuMs - before[at]!) / 1_000) as [number, number];
    say(`  each file is known after ${firstSecs.toFixed(1)} s; CPU of service and database ${first.join(' and ')} s`);
    await sleep(SETTLE_MS);
    const idleBefore = readCpuMs();
    await sleep(IDLE_MS);
    const idleMs = readCpuMs().reduce((sum, cpuMs, at) => sum + cpuMs - idleBefore[at]!, 0);
    say(`  CPU without a change: ${((idleMs * 100) / IDLE_MS).toFixed(1)} % of a core`);
    const half = join(folder, '.new');
    writeFileSync(half, 'new\n');
    const putMs = performance.now();
    renameSync(half, join(folder, 'new.csv'));
    await awaitRows(pool, `SELECT count(*)::int AS rows FROM voidbox.deliveries WHERE trigger = 'files'`, 1);
    return {
      firstSecs,
      firstServiceCpuSecs: first[0],
      firstDatabaseCpuSecs: first[1],
      beforeMib,
      peakMib: readPeakMib(stack.servicePid),
      idlePercent: (idleMs * 100) / IDLE_MS,
      newFileSecs: (performance.now() - putMs) / 1_000,
    };
  } finally {
    await pool.end();
  }
}

/** @throws Error if the table has less rows after a time */
async function awaitRows(pool: pg.Pool, sql: string, wanted: number): Promise<void> {
  const endAtMs = Date.now() + LIMIT_MS;
  for (;;) {
    const { rows } = await pool.query<{ rows: number }>(sql);
    if (rows[0]!.rows >= wanted) return;
    if (Date.now() > endAtMs) throw new Error(`${sql}: ${rows[0]!.rows} and not ${wanted} after ${LIMIT_MS} ms`);
    await sleep(LOOK_MS);
  }
}

function readPeakMib(pid: number): number {
  const [, kib] = /^VmHWM:\s*(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))!;
  return Number(kib) / 1024;
}
