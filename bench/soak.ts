/**
 * Figure (h): memory over many small runs. A worker that serves a fleet for weeks may hold on to nothing of a run that
 * has ended; what it takes after 1,000 runs is what it takes after 5,000.
 */
import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { residentMib, spread, type Spread } from './measure.ts';

/** Runs that are under way at once. */
const SIDE_BY_SIDE = 8;

export interface SoakOptions {
  readonly address: string;
  readonly workerPid: number;
  readonly serverPid: number;
  /** Text of the spec of each run. */
  readonly spec: string;
  readonly runs: number;
  /** Memory is read each time that so many runs have ended. */
  readonly sampleEvery: number;
  readonly onSample: (sample: SoakSample) => void;
}

export interface SoakSample {
  readonly runs: number;
  readonly elapsedMs: number;
  readonly workerMib: number;
  readonly serverMib: number;
}

/** @throws when a run does not succeed */
export async function soak(options: SoakOptions): Promise<readonly SoakSample[]> {
  const connection = await Connection.connect({ address: options.address });
  const client = new Client({ connection });
  const samples: SoakSample[] = [];
  const beganMs = performance.now();
  let started = 0;
  let ended = 0;
  const lane = async (): Promise<void> => {
    while (started < options.runs) {
      started += 1;
      await client.workflow.execute('voidboxRun', {
        taskQueue: 'voidbox',
        workflowId: `soak-${randomUUID()}`,
        args: [{ spec: options.spec }],
      });
      ended += 1;
      if (ended % options.sampleEvery !== 0) continue;
      const sample = {
        runs: ended,
        elapsedMs: performance.now() - beganMs,
        workerMib: residentMib(options.workerPid),
        serverMib: residentMib(options.serverPid),
      };
      samples.push(sample);
      options.onSample(sample);
    }
  };
  try {
    await Promise.all(Array.from({ length: SIDE_BY_SIDE }, lane));
  } finally {
    await connection.close();
  }
  return samples;
}

/** Memory of both processes when about so many runs have ended: over the samples of the last `window` runs, because a collection of garbage moves each of them. */
export function measureAround(
  samples: readonly SoakSample[],
  runs: number,
  window: number,
): { readonly workerMib: Spread; readonly serverMib: Spread } {
  const near = samples.filter((sample) => sample.runs > runs - window && sample.runs <= runs);
  return {
    workerMib: spread(near.map(({ workerMib }) => workerMib)),
    serverMib: spread(near.map(({ serverMib }) => serverMib)),
  };
}
