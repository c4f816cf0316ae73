/**
 * Twenty rounds of blows against everything that a run stands on. Each time another storm: its seed is printed, and
 * `npm run storm -- --seed N` sends it again.
 */
import { randomInt } from 'node:crypto';
import { expect, test } from 'vitest';
import { storm, type StormRound } from './storm.ts';

const ROUNDS = 20;
/** Rounds wait for heartbeats and stopped processes more than they compute. */
const LANES = 3;

test('a storm of kills and stops loses no line, doubles nothing and leaves nothing behind', { timeout: 20 * 60_000 }, async () => {
  const seed = randomInt(1_000_000);
  process.stderr.write(`storm of ${ROUNDS} rounds: npm run storm -- --seed ${seed}\n`);
  const reports = await storm({ seed, rounds: ROUNDS, firstRound: 0, lanes: LANES, signal: new AbortController().signal, onRound: say });
  expect(reports).toHaveLength(ROUNDS);
  const found = reports.filter(({ findings }) => findings.length > 0);
  expect(
    found.map(({ round, findings, blows, keptIn }) => ({ again: `npm run storm -- --seed ${seed} --from ${round} --rounds 1`, findings, blows, keptIn })),
  ).toEqual([]);
});

function say({ round, durationMs, blows, findings }: StormRound): void {
  process.stderr.write(
    `round ${round}: ${findings.length} findings in ${(durationMs / 1000).toFixed(0)} s; ${blows.join(', ')}\n${findings.map((finding) => `  ${finding}\n`).join('')}`,
  );
}
