/**
 * A second deployment follows the runs of the storm. Each ended run has one delivery there, and each run whose output is
 * `files` one run, which prints the id of the run that it follows.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { isOpen, type ListedDelivery } from './findings.ts';
import { haveEnded, type Lane, listDeliveries } from './round.ts';
import { DEPLOYMENT } from './spec.ts';

export const FOLLOWER = 'after';

/** A longer time than the pause between two looks for ends, on a busy machine. */
const LIMIT_MS = 60_000;
const POLL_MS = 200;
const LAST_LIST_MS = 5_000;

export const FOLLOWER_SPEC = JSON.stringify({
  kind: 'workflow',
  name: FOLLOWER,
  sandbox: { mode: 'mock', isolation: 'none' },
  params: { run: { type: 'text', default: '' } },
  on: [
    {
      name: 'ended',
      run: { of: DEPLOYMENT },
      when: 'input.output.text == "files\\n"',
      params: { run: '${{ input.run }}' },
    },
  ],
  workflow: { steps: [{ name: 'tell', run: { program: 'echo', args: ['${{ params.run }}'] } }] },
});

/** Waits until each run of the storm has its delivery there. @returns what is wrong, a sentence each */
export async function findFollowerFaults(lane: Lane): Promise<readonly string[]> {
  const { rig, earlier } = lane;
  const { ended, rows } = await awaitFollowers(lane);
  const faults: string[] = [];
  if (rows.length !== ended) faults.push(`${ended} runs have ended, and ${FOLLOWER} has ${rows.length} deliveries`);
  const followed: string[] = [];
  for (const { id, state, code, runId } of rows) {
    if (state !== 'started' && state !== 'filtered')
      faults.push(`${FOLLOWER}: the delivery ${id} is ${state} (${code})`);
    if (state === 'started') followed.push((await rig.output(runId!, 'tell')).trim());
  }
  for (const runId of new Set([...followed, ...earlier.followed])) {
    const count = followed.filter((each) => each === runId).length;
    const wanted = earlier.followed.has(runId) ? 1 : 0;
    if (count !== wanted) faults.push(`${FOLLOWER}: ${count} runs follow ${runId}, and not ${wanted}`);
  }
  return faults;
}

interface Followers {
  /** The runs of the storm whose ends the service knows. An end and its delivery are one transaction. */
  readonly ended: number;
  readonly rows: readonly ListedDelivery[];
}

/** The schedule never pauses, so another run may end between two lists. */
async function awaitFollowers({ rig, service, earlier }: Lane): Promise<Followers> {
  const endAtMs = Date.now() + LIMIT_MS;
  const countEnded = async (): Promise<number | null> => {
    const started = (await listDeliveries(service, DEPLOYMENT, endAtMs)).filter(({ state }) => state === 'started');
    const ended = started.filter(({ runEndedAtMs }) => runEndedAtMs !== null);
    const isKnown = started.every(({ id, runEndedAtMs }) => runEndedAtMs !== null || !earlier.deliveries.has(id));
    return isKnown ? ended.length : null;
  };
  for (;;) {
    const before = await countEnded();
    const rows = await listDeliveries(service, FOLLOWER, endAtMs);
    const ended = await countEnded();
    const isWhole = before !== null && before === ended && !rows.some(isOpen) && (await haveEnded(rig, rows));
    if (isWhole || Date.now() > endAtMs - LAST_LIST_MS) return { ended: ended ?? -1, rows };
    await sleep(POLL_MS);
  }
}
