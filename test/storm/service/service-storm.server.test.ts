/**
 * Five rounds of kills against the HTTP API. Each time it is another storm: its seed is printed, and
 * `npm run storm -- --service --seed N` sends it again. A long storm is `npm run storm -- --service`.
 */
import { randomInt } from 'node:crypto';
import { expect, test } from 'vitest';
import { READERS_OF_A_RUN, RUNS } from './round.ts';
import { stormService } from './storm.ts';

const ROUNDS = 5;
const READERS = RUNS * READERS_OF_A_RUN;
/** A round mostly waits for processes that start again. */
const LANES = 2;

test(
  'each reader has each event once, and each key one run, whichever process of the service is killed',
  { timeout: 10 * 60_000 },
  async () => {
    const seed = randomInt(1_000_000);
    process.stderr.write(`storm of ${ROUNDS} rounds: npm run storm -- --service --seed ${seed}\n`);
    const reports = await stormService({
      seed,
      rounds: ROUNDS,
      firstRound: 0,
      lanes: LANES,
      signal: new AbortController().signal,
      onRound: ({ round, durationMs, phasesMs, connections, blows, findings }) =>
        process.stderr.write(
          `round ${round}: ${findings.length} findings in ${(durationMs / 1000).toFixed(0)} s ${JSON.stringify(phasesMs)}; ${blows.join(', ')}; ${connections} connections of readers\n${findings.map((finding) => `  ${finding}\n`).join('')}`,
        ),
    });
    expect(reports).toHaveLength(ROUNDS);
    // Without a second connection, no reader would have resumed.
    expect(reports.reduce((sum, { connections = 0 }) => sum + connections, 0)).toBeGreaterThan(ROUNDS * READERS);
    expect(
      reports
        .filter(({ findings }) => findings.length > 0)
        .map(({ round, blows, findings, keptIn }) => ({
          again: `npm run storm -- --service --seed ${seed} --from ${round} --rounds 1`,
          blows,
          findings,
          keptIn,
        })),
    ).toEqual([]);
  },
);
