/** Reads the queues of all enabled deployments, and follows their changes. */
import { findRefusedBroker } from '../../../domain/delivery/queue-address.ts';
import { listQueueSecrets, type QueueSource } from '../../../domain/delivery/queue-source.ts';
import type { Trigger } from '../../../domain/delivery/trigger.ts';
import { CodedError } from '../../../domain/errors/coded-error.ts';
import type { DeploymentRow, TriggerStore } from '../../../store/triggers.ts';
import { createEnabledList, type EnabledVersion, type EnabledList } from '../../deployments/enabled-versions.ts';
import { type QueueKeeper, keepQueue, type KeepTools, type QueueState } from './keep-queue.ts';
import type { OpenQueue, QueueTarget } from './queue-port.ts';

export const SOURCES_LIMITS = {
  /** How often the deployments are compared with the queues that are read. */
  everyMs: 5_000,
  /** The most queues that one service reads. */
  mostQueues: 256,
} as const;

export interface QueueSourcesOptions extends Pick<KeepTools, 'limits' | 'keepLimits'> {
  /** Null: there is no database yet. */
  readonly openTriggers: () => Promise<TriggerStore | null>;
  readonly open: OpenQueue;
  /** Returns the values of secrets that exist, by name. */
  readonly readSecrets: (deployment: string, names: readonly string[]) => Promise<Readonly<Record<string, string>>>;
  /** Reads the servers that the operator allows, as `HOST:PORT`. @throws Error if it cannot be read */
  readonly readAllowed: () => readonly string[];
  /** Tells the service that a delivery waits. */
  readonly wake: () => void;
  readonly nowMs: () => number;
  readonly log: (line: string) => void;
  /** Shared with the other parts of the service. */
  readonly listEnabled?: EnabledList;
  /** Other limits are for tests. */
  readonly sourcesLimits?: Readonly<Record<keyof typeof SOURCES_LIMITS, number>>;
}

export interface QueueSources {
  /** Deployments may have changed. */
  refresh(): void;
  /** The queues of a deployment that this service reads. */
  listStates(deployment: string): readonly QueueState[];
  /** Ends when each message that was read is committed or given back. */
  close(): Promise<void>;
}

/** A queue that an enabled version names. */
interface WantedQueue {
  readonly deployment: DeploymentRow;
  readonly trigger: Trigger;
  readonly source: QueueSource;
}

interface RunningQueue {
  readonly kept: QueueKeeper;
  readonly stop: AbortController;
  /** The pause of the deployment when it was last looked at. */
  deployment: DeploymentRow;
}

export function startQueueSources(options: QueueSourcesOptions): QueueSources {
  const { openTriggers, log, sourcesLimits: limits = SOURCES_LIMITS, listEnabled = createEnabledList() } = options;
  const running = new Map<string, RunningQueue>();
  const ending = new Set<Promise<void>>();
  const surplus = new Map<string, QueueState>();
  let isClosed = false;
  const stop = (key: string): void => {
    const queue = running.get(key)!;
    running.delete(key);
    queue.stop.abort();
    const ended = queue.kept.ended.finally(() => ending.delete(ended));
    ending.add(ended);
  };
  const compare = async (): Promise<void> => {
    const triggers = isClosed ? null : await openTriggers();
    const wanted = listWanted(triggers === null ? [] : await listEnabled(triggers.deployments));
    if (isClosed) return;
    for (const key of running.keys()) if (!wanted.has(key)) stop(key);
    surplus.clear();
    for (const [key, queue] of wanted) {
      const known = running.get(key);
      if (known !== undefined) known.deployment = queue.deployment;
      else if (running.size < limits.mostQueues) running.set(key, startQueue(queue, triggers!, options, running, key));
      else surplus.set(key, describeSurplus(queue, limits.mostQueues, options.nowMs()));
    }
  };
  let comparing: Promise<void> | null = null;
  let isAsked = false;
  const refresh = (): void => {
    isAsked = true;
    comparing ??= (async () => {
      while (isAsked) {
        isAsked = false;
        await compare().catch((error: Error) => log(`queues: ${error.message}`));
      }
    })().finally(() => (comparing = null));
  };
  const timer = setInterval(refresh, limits.everyMs).unref();
  refresh();
  return {
    refresh,
    listStates: (name) => {
      const states = [...[...running.values()].map(({ kept }) => kept.getState()), ...surplus.values()];
      return states.filter(({ deployment }) => deployment === name);
    },
    async close() {
      isClosed = true;
      clearInterval(timer);
      await comparing;
      for (const key of running.keys()) stop(key);
      await Promise.all(ending);
    },
  };
}

function listWanted(versions: readonly EnabledVersion[]): ReadonlyMap<string, WantedQueue> {
  const wanted = new Map<string, WantedQueue>();
  for (const deployment of versions)
    for (const trigger of deployment.triggers)
      if (trigger.source.kind === 'queue') {
        const key = JSON.stringify([deployment.name, deployment.version, trigger.name]);
        wanted.set(key, { deployment, trigger, source: trigger.source });
      }
  return wanted;
}

function startQueue(
  { deployment, trigger, source }: WantedQueue,
  { deliveries }: TriggerStore,
  options: QueueSourcesOptions,
  running: ReadonlyMap<string, RunningQueue>,
  key: string,
): RunningQueue {
  const { name, version } = deployment;
  const { open, wake, nowMs, log, limits, keepLimits } = options;
  const stop = new AbortController();
  const kept = keepQueue(
    {
      deployment: name,
      version,
      trigger: trigger.name,
      isOrdered: trigger.order !== null,
      maxDeliver: source.nats.maxDeliver,
    },
    {
      deliveries,
      nowMs,
      wake,
      log,
      open,
      signal: stop.signal,
      countOpen: async (most) => await deliveries.countOpen(name, trigger.name, most),
      mayRead() {
        requireAllowed(source, options);
        const { isPaused, onPause } = running.get(key)?.deployment ?? deployment;
        return !(isPaused && onPause === 'hold');
      },
      prepare: async () => await prepareTarget(name, source, options),
      ...(limits === undefined ? {} : { limits }),
      ...(keepLimits === undefined ? {} : { keepLimits }),
    },
  );
  return { kept, stop, deployment };
}

/** @throws CodedError `queue/not-allowed` */
function requireAllowed({ nats }: QueueSource, { readAllowed }: Pick<QueueSourcesOptions, 'readAllowed'>): void {
  const refused = findRefusedBroker(nats.servers, readAllowed());
  if (refused !== null)
    throw new CodedError('queue/not-allowed', `the operator of the service does not allow the server ${refused}`);
}

/** @throws CodedError `queue/not-allowed`, `queue/no-secret` */
async function prepareTarget(
  deployment: string,
  source: QueueSource,
  options: Pick<QueueSourcesOptions, 'readSecrets' | 'readAllowed'>,
): Promise<QueueTarget> {
  requireAllowed(source, options);
  const names = listQueueSecrets(source);
  const secrets = names.length === 0 ? {} : await options.readSecrets(deployment, names);
  const missing = names.find((name) => !Object.hasOwn(secrets, name) || secrets[name] === '');
  if (missing !== undefined)
    throw new CodedError('queue/no-secret', `the deployment ${deployment} has no secret ${missing}`);
  return { nats: source.nats, secrets, clientName: `voidbox ${deployment}` };
}

function describeSurplus({ deployment, trigger }: WantedQueue, most: number, nowMs: number): QueueState {
  return {
    deployment: deployment.name,
    trigger: trigger.name,
    state: 'faulty',
    code: 'queue/too-many',
    message: `the service reads ${most} queues of other triggers`,
    sinceMs: nowMs,
  };
}
