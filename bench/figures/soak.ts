import { join } from 'node:path';
import { format } from '../measure.ts';
import type { Figure } from '../report.ts';
import { startServer, TUNED_FLAGS } from '../servers.ts';
import { measureAround, soak } from '../soak.ts';
import { noopSpec } from '../stages.ts';
import { type Bench, startOurWorker } from './bench.ts';

const SOAK_RUNS = 5_000;
const SOAK_EARLY_RUNS = 1_000;
const SOAK_WINDOW = 500;
const SOAK_SAMPLE_EVERY = 25;

/** Once, whatever the number of rounds: it is as long as all the others together. */
export async function soakFigure(bench: Bench): Promise<Figure> {
  const { pieces, workDir, say } = bench;
  await using server = await startServer(pieces.temporalCli, join(workDir, 'soak.db'), TUNED_FLAGS);
  await using worker = await startOurWorker(bench, server.address, 'soak-state');
  const samples = await soak({
    address: server.address,
    workerPid: worker.pid,
    serverPid: server.pid,
    spec: noopSpec(2),
    runs: SOAK_RUNS,
    sampleEvery: SOAK_SAMPLE_EVERY,
    onSample({ runs, workerMib, serverMib }) {
      if (runs % SOAK_WINDOW === 0)
        say(`  ${runs} of ${SOAK_RUNS} runs: worker ${format(workerMib)} MiB, server ${format(serverMib)} MiB`);
    },
  });
  const early = measureAround(samples, SOAK_EARLY_RUNS, SOAK_WINDOW);
  const late = measureAround(samples, SOAK_RUNS, SOAK_WINDOW);
  const growth = {
    worker: late.workerMib.median / early.workerMib.median,
    server: late.serverMib.median / early.serverMib.median,
  };
  return {
    title: '(h) Memory over many runs',
    method: `${SOAK_RUNS} runs of two stages on the mock sandbox, eight at a time, on one worker and one server. Resident memory is read every ${SOAK_SAMPLE_EVERY} runs; each figure is over the ${SOAK_WINDOW} runs before it.`,
    rows: [
      { what: `worker after ${SOAK_EARLY_RUNS} runs`, value: early.workerMib, unit: 'MiB' },
      { what: `worker after ${SOAK_RUNS} runs`, value: late.workerMib, unit: 'MiB' },
      { what: `server after ${SOAK_EARLY_RUNS} runs`, value: early.serverMib, unit: 'MiB' },
      { what: `server after ${SOAK_RUNS} runs`, value: late.serverMib, unit: 'MiB' },
    ],
    goals: [
      {
        what: `worker after ${SOAK_RUNS} runs against ${SOAK_EARLY_RUNS}`,
        value: growth.worker,
        goal: '≤ 1.10',
        met: growth.worker <= 1.1,
      },
      {
        what: `server after ${SOAK_RUNS} runs against ${SOAK_EARLY_RUNS}`,
        value: growth.server,
        goal: '≤ 1.10',
        met: growth.server <= 1.1,
      },
    ],
  };
}
