/**
 * Advances of durable sessions, against a bare update with one local activity on the same server. A session of the wanted depth
 * is begun with what continue-as-new hands over: the engine's own state after so many answers, its records in files.
 */
import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { Client, Connection, type WorkflowHandle } from '@temporalio/client';
import type { SessionCarried } from '../activities/contract-session.ts';
import { factsOf } from '../domain/step-machine/facts.ts';
import { flush } from '../domain/step-machine/records.ts';
import { advanceSession, startSession, viewSession } from '../client/sessions/sessions.ts';
import { openSessionStores } from '../store/open-session-stores.ts';
import { SESSION_TASK_QUEUE, SESSION_WORKFLOW_TYPE } from '../workflows/messages.ts';
import { LOOP_STEP, loopAnswer, loopSkill } from './loop-skill.ts';
import { type Arm, processCpuMs } from './measure.ts';
import { count, sessionAt } from './steps.ts';

export type DurableMeasure = 'wallMs' | 'cpuMs' | 'events' | 'bytes';

/** Advances in a round. */
const SAMPLE = 25;
/** As a session has written when it carries itself over. */
const RECORDS_A_FILE = 32;

export interface DurableBench {
  readonly client: Client;
  readonly workerPid: number;
  readonly stateDir: string;
  readonly codeHash: string;
}

export async function openDurableBench(address: string, workerPid: number, stateDir: string): Promise<DurableBench> {
  const client = new Client({ connection: await Connection.connect({ address }) });
  const session = `warm-${randomUUID()}`;
  const first = await startSession(client, session, { skill: 'loop' });
  if (first.kind !== 'prompt') throw new Error(`the session did not start: ${JSON.stringify(first)}`);
  const { codeHash } = await viewSession(client, session);
  // The first ones fill caches of the worker and the server.
  const warm = createAnswerer(client, session, 1);
  for (let i = 0; i < SAMPLE; i++) await warm();
  return { client, workerPid, stateDir, codeHash };
}

export async function durableArm(bench: DurableBench, steps: number): Promise<Arm<DurableMeasure>> {
  const { client, workerPid } = bench;
  const session = await seedSession(bench, steps);
  const once = createAnswerer(client, session, steps + 1);
  await once();
  return {
    name: `durable, after ${count(steps)} steps`,
    round: () => measureAnswers(client.workflow.getHandle(session), workerPid, once),
  };
}

/** As many answers as one session gets in one go, its continue-as-new included. */
export async function measureLongSession(
  { client, workerPid }: DurableBench,
  steps: number,
): Promise<{ readonly wallMs: number; readonly cpuMs: number }> {
  const session = `long-${randomUUID()}`;
  await startSession(client, session, { skill: 'loop' });
  const once = createAnswerer(client, session, 1);
  const [cpuBefore, began] = [cpuOf(workerPid), performance.now()];
  for (let i = 0; i < steps; i++) await once();
  return { wallMs: (performance.now() - began) / steps, cpuMs: (cpuOf(workerPid) - cpuBefore) / steps };
}

export async function bareArm(client: Client, workerPid: number): Promise<Arm<DurableMeasure>> {
  const handle = await client.workflow.start('bareUpdates', { taskQueue: 'bare', workflowId: `bare-${randomUUID()}` });
  const once = async (): Promise<void> =>
    void (await handle.executeUpdate('bare', { args: [loopAnswer(0)], updateId: randomUUID() }));
  for (let i = 0; i < SAMPLE; i++) await once();
  return { name: 'bare update with one local activity', round: () => measureAnswers(handle, workerPid, once) };
}

function createAnswerer(client: Client, session: string, firstTurn: number): () => Promise<void> {
  let turn = firstTurn;
  return async () => {
    const result = await advanceSession(client, session, { turn, step: LOOP_STEP, output: loopAnswer(turn) });
    if (result.kind !== 'prompt')
      throw new Error(`turn ${turn} of ${session} gave ${JSON.stringify(result).slice(0, 300)}`);
    turn += 1;
  };
}

async function measureAnswers(
  handle: WorkflowHandle,
  workerPid: number,
  once: () => Promise<void>,
): Promise<Record<DurableMeasure, number>> {
  const before = await historyOf(handle);
  const [cpuBefore, began] = [cpuOf(workerPid), performance.now()];
  for (let i = 0; i < SAMPLE; i++) await once();
  const [wallMs, cpuMs] = [performance.now() - began, cpuOf(workerPid) - cpuBefore];
  const after = await historyOf(handle);
  return {
    wallMs: wallMs / SAMPLE,
    cpuMs: cpuMs / SAMPLE,
    events: (after.events - before.events) / SAMPLE,
    bytes: (after.bytes - before.bytes) / SAMPLE,
  };
}

async function historyOf(handle: WorkflowHandle): Promise<{ readonly events: number; readonly bytes: number }> {
  const { raw } = await handle.describe();
  return {
    events: Number(raw.workflowExecutionInfo?.historyLength ?? 0),
    bytes: Number(raw.workflowExecutionInfo?.historySizeBytes ?? 0),
  };
}

/** Returns the CPU time of a worker and the processes of its skills. */
function cpuOf(workerPid: number): number {
  return [workerPid, ...childrenOf(workerPid)].reduce((sum, pid) => sum + processCpuMs(pid), 0);
}

function childrenOf(parent: number): number[] {
  return readdirSync(`/proc/${parent}/task`).flatMap((task) =>
    readFileSync(`/proc/${parent}/task/${task}/children`, 'utf8')
      .split(' ')
      .filter((pid) => pid !== '')
      .map(Number),
  );
}

async function seedSession({ client, stateDir, codeHash }: DurableBench, steps: number): Promise<string> {
  const session = `seeded-${steps}-${randomUUID()}`;
  const { state, records } = await sessionAt(steps, { session, codeHash, showTurns: true });
  const { records: files } = openSessionStores({ stateDir }, 'embedded');
  let ref: string | null = null;
  for (let from = 0; from < records.length; from += RECORDS_A_FILE) {
    ref = await files.write({ session, previous: ref, records: records.slice(from, from + RECORDS_A_FILE) });
  }
  const facts = factsOf(loopSkill(), codeHash);
  const carried: SessionCarried = {
    carried: 1,
    request: { skill: 'loop' },
    opened: {
      code: { skill: 'loop', version: state.version, codeHash },
      facts,
      params: null,
      observers: [],
      searchAttributes: [],
    },
    state: { ...state, records: flush(state.records, ref!), requests: [] },
    last: records.at(-1)!,
    answers: [],
    observed: 0,
  };
  await client.workflow.start(SESSION_WORKFLOW_TYPE, {
    taskQueue: SESSION_TASK_QUEUE,
    workflowId: session,
    args: [carried],
  });
  return session;
}
