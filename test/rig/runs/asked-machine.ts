/** A machine with stores in memory, and with a server that knows every run as running and counts what it is asked. */
import type { Client } from '@temporalio/client';
import type { Machine } from '../../../app/machine.ts';
import type { ServerLink } from '../../../client/temporal/server-link.ts';
import type { NewRunEvent } from '../../../domain/run/event.ts';
import { readEnvironment } from '../../../setup/environment.ts';
import type { Stores } from '../../../store/stores.ts';
import { MemoryPlace, openMemoryStores } from './memory-stores.ts';

export interface AskedMachine {
  readonly machine: Machine;
  readonly stores: Stores;
  /** The calls of the server, such as `describe a`. */
  readonly asked: string[];
}

export function createAskedMachine(): AskedMachine {
  const stores = openMemoryStores(new MemoryPlace());
  const asked: string[] = [];
  const answer = {
    status: { name: 'RUNNING' },
    startTime: new Date(),
    closeTime: undefined,
    raw: { workflowExtendedInfo: { cancelRequested: false } },
  };
  const getHandle = (runId: string) => ({
    describe() {
      asked.push(`describe ${runId}`);
      return Promise.resolve(answer);
    },
    cancel() {
      asked.push(`cancel ${runId}`);
      return Promise.resolve();
    },
  });
  const client = { workflow: { getHandle } } as unknown as Client;
  const link = {
    isEmbedded: true,
    client: () => client,
    briefly: <T>(call: (client: Client) => Promise<T>) => call(client),
  } as Partial<ServerLink> as ServerLink;
  const machine = {
    env: readEnvironment({}),
    stores: () => Promise.resolve(stores),
    stackLink: () => Promise.resolve(link),
    now: () => new Date(),
  } as Partial<Machine> as Machine;
  return { machine, stores, asked };
}

export function createAdmitted(): NewRunEvent {
  return {
    id: 'run/admitted',
    atMs: Date.now(),
    body: { type: 'run-admitted', name: 'a', kind: 'workflow', hostId: 'here', stages: [], outputStage: null },
  };
}

export const CANCELLED: NewRunEvent = {
  id: 'run/finished',
  atMs: 0,
  body: { type: 'run-finished', outcome: { state: 'cancelled', failedStage: null, failure: null, output: null } },
};
