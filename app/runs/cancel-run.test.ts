/** Tests how long a cancel waits for the end of its run. */
import { expect, test } from 'vitest';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { Stores } from '../../store/stores.ts';
import { type AskedMachine, CANCELLED, createAdmitted, createAskedMachine } from '../../test/rig/runs/asked-machine.ts';
import { cancelFoundRun, type CancelledRun } from './cancel-run.ts';

const MINUTE_MS = 60_000;

async function startCancel(change: Partial<Stores> = {}) {
  const asked = createAskedMachine();
  await asked.stores.events.append('a', [createAdmitted()]);
  const leaving = new AbortController();
  const options = { waitMs: MINUTE_MS, signal: leaving.signal, onProgress: () => undefined };
  const stores = { ...asked.stores, ...change };
  const machine = { ...asked.machine, stores: () => Promise.resolve(stores) };
  const cancelled: Promise<CancelledRun> = cancelFoundRun('a', options, machine);
  await expect.poll(() => asked.asked).toContain('cancel a');
  return { ...asked, leaving, cancelled };
}

test('a cancel ends with the end of its run', async () => {
  const { stores, cancelled } = await startCancel();
  await stores.events.append('a', [CANCELLED]);
  expect((await cancelled).fact).toEqual({ runId: 'a', state: 'cancelled', wasRunning: true });
});

test('a cancel whose caller has gone waits no longer', async () => {
  const { leaving, cancelled } = await startCancel();
  leaving.abort();
  expect((await cancelled).fact).toEqual({ runId: 'a', state: 'cancelling', wasRunning: true });
});

test('a cancel of a run whose events cannot be followed waits no longer', async () => {
  const reader: AskedMachine['stores']['reader'] = {
    read: (...given) => createAskedMachine().stores.reader.read(...given),
    follow: () => {
      throw new CodedError('store/damaged', 'line 2 is damaged');
    },
  };
  const { cancelled } = await startCancel({ reader });
  expect((await cancelled).fact).toMatchObject({ state: 'cancelling' });
});
