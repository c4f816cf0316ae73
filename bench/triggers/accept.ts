/** Accepted deliveries a second, and rows of the same size that a client inserts itself, each in a commit of its own. */
import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import pg from 'pg';
import type { Arm } from '../measure.ts';
import type { TriggerStack } from './stack.ts';
import { repeatAtOnce, type Sender } from './webhook.ts';

export const ACCEPTED = 1_000;
/** As many as the service has connections to its database. */
export const AT_ONCE = 10;
const BODY_CHARACTERS = 1_024;

/** Each delivery is filtered: the figure has no runs. */
export function createAcceptArm(sender: Sender): Arm<'aSecond'> {
  return createArm('deliveries that the service accepts', async () => {
    await sender.send('filtered', makeBody());
  });
}

export async function createInsertArm({
  socketDir,
}: TriggerStack): Promise<Arm<'aSecond'> & { close(): Promise<void> }> {
  const pool = new pg.Pool({ host: socketDir, user: 'voidbox', database: 'postgres', max: AT_ONCE });
  await pool.query('CREATE TABLE public.bench_rows (id text PRIMARY KEY, at_ms bigint NOT NULL, body bytea NOT NULL)');
  const arm = createArm('rows that a client inserts', async () => {
    const values = [randomUUID(), Date.now(), Buffer.from(makeBody())];
    await pool.query('INSERT INTO public.bench_rows (id, at_ms, body) VALUES ($1, $2, $3)', values);
  });
  return { ...arm, close: () => pool.end() };
}

function makeBody(): string {
  return JSON.stringify({ key: randomUUID(), padding: 'x'.repeat(BODY_CHARACTERS) });
}

function createArm(name: string, add: () => Promise<void>): Arm<'aSecond'> {
  const measureRound = async () => {
    const beganMs = performance.now();
    await repeatAtOnce(ACCEPTED, AT_ONCE, add);
    return { aSecond: (ACCEPTED * 1_000) / (performance.now() - beganMs) };
  };
  return { name, round: measureRound };
}
