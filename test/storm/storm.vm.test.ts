/**
 * Nine rounds of blows against everything that a run depends on, some of them on a disk that is filled at the same
 * time. Each time it is another storm: its seed is printed, and `npm run storm -- --seed N` sends it again. A long
 * storm is `npm run storm -- --rounds 500`.
 */
import { randomInt } from 'node:crypto';
import { expect, test } from 'vitest';
import { storm, type StormRound } from './storm.ts';

/** Side by side: rounds wait for heartbeats and stopped processes more than they compute. */
const STORMS = [
  { rounds: 6, lanes: 2, disk: false },
  { rounds: 3, lanes: 1, disk: true },
] as const;

test(
  'a storm of kills, stops and full disks loses no line, doubles nothing and leaves nothing behind',
  { timeout: 20 * 60_000 },
  async () => {
    const seed = randomInt(1_000_000);
    const again = (disk: boolean): string => `npm run storm -- --seed ${seed}${disk ? ' --disk' : ''}`;
    for (const { rounds, disk } of STORMS) process.stderr.write(`storm of ${rounds} rounds: ${again(disk)}\n`);
    const { signal } = new AbortController();
    const reports = await Promise.all(
      STORMS.map(async ({ rounds, lanes, disk }) => {
        const ofStorm = await storm({
          seed,
          rounds,
          firstRound: 0,
          lanes,
          disk,
          signal,
          onRound: (report) => say(report, disk),
        });
        return ofStorm.map((report) => ({ ...report, disk }));
      }),
    );
    expect(reports.map(({ length }) => length)).toEqual(STORMS.map(({ rounds }) => rounds));
    const found = reports.flat().filter(({ findings }) => findings.length > 0);
    expect(
      found.map(({ round, disk, findings, blows, keptIn }) => ({
        again: `${again(disk)} --from ${round} --rounds 1`,
        findings,
        blows,
        keptIn,
      })),
    ).toEqual([]);
  },
);

function say({ round, durationMs, phasesMs, blows, findings }: StormRound, disk: boolean): void {
  const spent = Object.entries(phasesMs).map(([phase, ms]) => `${phase} ${(ms / 1000).toFixed(1)}`);
  process.stderr.write(
    `round ${round}${disk ? ' on a small disk' : ''}: ${findings.length} findings in ${(durationMs / 1000).toFixed(0)} s (${spent.join(', ')}); ${blows.join(', ')}\n${findings.map((finding) => `  ${finding}\n`).join('')}`,
  );
}
