/** The clock of a guest over a time, as its host sees it, and the rule by which it is right. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import type { Sandbox } from '../../../activities/ports/sandbox.ts';
import { follow, limit, script, textOf } from '../../conformance/sandbox/behaviour.ts';

/** A guest's clock is wrong if it is outside of the question and its answer by more than this. @see docs/adr/0069-the-guests-clock.md */
export const WRONG_BY_MS = 200;
/** The keeper asks for the clock this often while a command runs, and so a clock that drifts further is wrong for longer. */
const CHECKED_EVERY_S = 20;
const MOST_DRIFT_MS_PER_S = WRONG_BY_MS / CHECKED_EVERY_S;
/** Readings at each end, of which the one with the fastest answer counts. */
const READINGS = 5;
/** Prints the time in milliseconds, because `date` of busybox prints only whole seconds. */
export const PRINT_TIME = `adjtimex | awk '/tv_sec/ {s = $2} /tv_usec/ {printf "%d%03d\\n", s, $2 / 1000}'`;

export interface ClockReading {
  /** The host's time when the guest was asked. */
  readonly atMs: number;
  /** The guest's time, less the host's: at least `leastMs`, at most `mostMs`. */
  readonly leastMs: number;
  readonly mostMs: number;
}

export async function readClock(sandbox: Sandbox): Promise<ClockReading> {
  const atMs = Date.now();
  const guestMs = Number(await textOf(sandbox, script(PRINT_TIME)));
  return { atMs, leastMs: guestMs - Date.now(), mostMs: guestMs - atMs };
}

/** Reads the clock of a guest for this long, while a command runs in the VM as it does in a stage. */
export async function followClock(
  sandbox: Sandbox,
  { lastsMs, everyMs }: { readonly lastsMs: number; readonly everyMs: number },
): Promise<readonly ClockReading[]> {
  const untilEnd = script('until [ -e clock-end ]; do sleep 0.1; done', { timeoutMs: lastsMs + 120_000 });
  const running = await sandbox.exec(untilEnd, limit());
  const readings: ClockReading[] = [];
  const readSome = async (): Promise<void> => {
    for (let count = 0; count < READINGS; count += 1) readings.push(await readClock(sandbox));
  };
  await readSome();
  for (const end = Date.now() + lastsMs; Date.now() < end; readings.push(await readClock(sandbox)))
    await sleep(Math.min(everyMs, end - Date.now()));
  await readSome();
  await textOf(sandbox, script('touch clock-end'));
  await follow(running);
  return readings;
}

/** The drift that the readings prove, in milliseconds; it is negative for a clock that is slow. */
export function driftOf(readings: readonly ClockReading[]): { readonly ms: number; readonly overS: number } {
  const first = narrowestOf(readings.slice(0, READINGS));
  const last = narrowestOf(readings.slice(-READINGS));
  const early = Math.max(0, last.leastMs - first.mostMs);
  const late = Math.max(0, first.leastMs - last.mostMs);
  return { ms: early - late, overS: (last.atMs - first.atMs) / 1_000 };
}

function narrowestOf(readings: readonly ClockReading[]): ClockReading {
  return readings.reduce((best, one) => (one.mostMs - one.leastMs < best.mostMs - best.leastMs ? one : best));
}

/** Checks each reading, and the drift for its time. */
export function expectRightClock(readings: readonly ClockReading[]): void {
  for (const [index, { leastMs, mostMs }] of readings.entries()) {
    expect(mostMs, `the guest’s clock is late at reading ${index}`).toBeGreaterThanOrEqual(-WRONG_BY_MS);
    expect(leastMs, `the guest’s clock is early at reading ${index}`).toBeLessThanOrEqual(WRONG_BY_MS);
  }
  const { ms, overS } = driftOf(readings);
  expect(Math.abs(ms) / overS, `${ms} ms in ${overS} s`).toBeLessThanOrEqual(MOST_DRIFT_MS_PER_S);
}
