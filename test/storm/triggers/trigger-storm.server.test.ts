/**
 * Eight rounds of kills under all sources of events, ends of runs too: each storm kills a worker at such an end. Each time it is another storm: its seed is printed, and
 * `npm run storm -- --triggers --seed N` sends it again. A long storm is `npm run storm -- --triggers --rounds 500`.
 */
import { randomInt } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import { ensureNatsServer, NATS_BUILD_LIMIT_MS } from '../../rig/queues/nats-program.ts';
import { NO_QUEUE } from './outside.ts';
import { stormTriggers } from './storm.ts';

const ROUNDS = 8;
/** A round mostly waits for processes that start again. */
const LANES = 4;

beforeAll(async () => {
  if (NO_QUEUE === null) await ensureNatsServer(console.error);
}, NATS_BUILD_LIMIT_MS);

test(
  'each accepted event has one outcome, and each key one run in its order, whichever process is killed',
  { timeout: 10 * 60_000 },
  async () => {
    const seed = randomInt(1_000_000);
    process.stderr.write(`storm of ${ROUNDS} rounds: npm run storm -- --triggers --seed ${seed}\n`);
    if (NO_QUEUE !== null) process.stderr.write(`without a queue: ${NO_QUEUE}\n`);
    const reports = await stormTriggers({
      seed,
      rounds: ROUNDS,
      firstRound: 0,
      lanes: LANES,
      signal: new AbortController().signal,
      onRound: ({ round, durationMs, phasesMs, blows, findings }) =>
        process.stderr.write(
          `round ${round}: ${findings.length} findings in ${(durationMs / 1000).toFixed(0)} s ${JSON.stringify(phasesMs)}; ${blows.join(', ')}\n${findings.map((finding) => `  ${finding}\n`).join('')}`,
        ),
    });
    expect(reports).toHaveLength(ROUNDS);
    expect(reports.flatMap(({ blows }) => blows).filter((blow) => !blow.includes('none there')).length).toBeGreaterThan(
      ROUNDS / 2,
    );
    expect(
      reports
        .filter(({ findings }) => findings.length > 0)
        .map(({ round, blows, findings, keptIn }) => ({
          again: `npm run storm -- --triggers --seed ${seed} --from ${round} --rounds 1`,
          blows,
          findings,
          keptIn,
        })),
    ).toEqual([]);
  },
);
