/** The stores of a service on another machine, for readers. */
import type { HostVariables } from '../../activities/ports/host-variables.ts';
import type { ServiceSettings } from '../../domain/access/service-settings.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { connectService, createForeignError, type ServiceClient } from '../../http/service-client.ts';
import { isUnknownRun, ServiceError } from '../../http/service-error.ts';
import { findRecordProblem } from '../shapes/record-shapes.ts';
import type { Stores } from '../stores.ts';
import { createHttpArtifactStore } from './artifact-store.ts';
import { createHttpRunIndex } from './run-index.ts';
import { createHttpRunReader } from './run-reader.ts';

/** The records that the service gives to readers. */
const READ_RECORDS: ReadonlySet<string> = new Set(['admission', 'plan', 'source']);

export function openHttpStores(settings: ServiceSettings): Stores {
  const client = connectService(settings);
  const namedBy = new Map<string, string>();
  return {
    events: { append: refuse, find: refuse, outputCursor: refuse },
    reader: createHttpRunReader(client, namedBy),
    index: createHttpRunIndex(client),
    artifacts: createHttpArtifactStore(client, namedBy),
    records: { put: refuse, create: refuse, drop: refuse, get: (runId, name) => readRecord(client, runId, name) },
    // A mark never leaves its host.
    marks: {
      put: refuse,
      putOfVm: refuse,
      drop: refuse,
      get: () => Promise.resolve(null),
      getOfVm: () => Promise.resolve(null),
    },
    hostVariables: NO_VARIABLES,
    inspector: {
      findDamaged: refuse,
      mayBeBeginning: refuse,
      setAside: refuse,
      checkMainRecords: (runId) => checkRun(client, runId),
      // The service refuses such a run itself.
      refuseSetAside: () => Promise.resolve(),
    },
    pruner: { prune: refuse },
    local: null,
    close: () => Promise.resolve(client.close()),
  };
}

/** The request that starts a run has its variables. They are read by no client. */
const NO_VARIABLES: HostVariables = {
  put: refuse,
  get: () => Promise.resolve({}),
  read: () => Promise.resolve({ variables: {}, startKey: null }),
  drop: () => Promise.resolve(),
};

function refuse(): Promise<never> {
  return Promise.reject(
    new ServiceError('a service on another machine is only read: it writes its runs itself', {
      fault: 'usage',
      code: 'cli/not-remote',
      remedy: 'Use the command on the machine of the service.',
    }),
  );
}

async function readRecord(client: ServiceClient, runId: string, name: string): Promise<unknown> {
  if (!READ_RECORDS.has(name)) return await refuse();
  try {
    const answer = await client.readJson({ path: ['runs', runId, 'records', name] });
    const value = (answer as { readonly value?: unknown } | null)?.value ?? null;
    if (value !== null && findRecordProblem(name, value) !== null) throw createForeignError(client.name);
    return value;
  } catch (error) {
    if (isUnknownRun(error)) return null;
    throw error;
  }
}

/** The service checks all records of the run, and repairs a run whose workflow was ended from outside. */
async function checkRun(client: ServiceClient, runId: string): Promise<void> {
  try {
    const run = (await client.readJson({ path: ['runs', runId] })) as { readonly damage?: unknown } | null;
    const damage = run?.damage;
    if (typeof damage === 'string') throw new CodedError('store/damaged', damage);
  } catch (error) {
    if (!isUnknownRun(error)) throw error;
  }
}
