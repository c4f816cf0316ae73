/** The part of a service that reads the sources of triggers: folders of its machine, and outboxes of applications. */
import { readAllowedSources } from '../../client/embedded/allowed-sources.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { Environment } from '../../setup/environment.ts';
import { readDiskRoom } from '../../store/disk-room.ts';
import { openHeldArtifacts } from '../../store/open-uploads.ts';
import type { HeldArtifacts } from '../../store/ports/held-artifacts.ts';
import type { TriggerStore } from '../../store/triggers.ts';
import type { Machine } from '../machine.ts';
import { createEnabledList, type EnabledList } from '../deployments/enabled-versions.ts';
import { type EnabledSource, listEnabledSources } from './enabled-sources.ts';
import { sweepHeld } from './folder/sweep-held.ts';
import { watchFolder } from './folder/watch-folder.ts';
import { createTurns, type Loop, startLoop } from '../loop.ts';
import { type OutboxTools, readOutbox } from './outbox/read-outbox.ts';
import { createProblemLog } from './problem-log.ts';

/** Another service of the same database may have deployed. */
const LIST_EVERY_MS = 15_000;
const LEAST_MS = 200;

export interface SourcesOptions {
  readonly env: Environment;
  readonly machine: Machine;
  /** Null: there is no database yet. */
  readonly openTriggers: () => Promise<TriggerStore | null>;
  /** Returns the values of secrets of a deployment, by name. */
  readonly readSecrets: OutboxTools['readSecrets'];
  /** Tells the service that a delivery waits. */
  readonly wake: () => void;
  readonly log: (line: string) => void;
  /** Shared with the other parts of the service. */
  readonly listEnabled?: EnabledList;
  /** Another pause between scans is for tests. */
  readonly leastPauseMs?: number;
}

export interface Sources extends Loop {
  /** Deletes what no delivery needs. */
  sweep(triggers: TriggerStore, nowMs: number): Promise<void>;
}

export function startSources(options: SourcesOptions): Sources {
  const {
    env,
    machine,
    openTriggers,
    readSecrets,
    wake,
    log,
    leastPauseMs,
    listEnabled = createEnabledList(),
  } = options;
  const requireTriggers = async (): Promise<TriggerStore> => {
    const triggers = await openTriggers();
    if (triggers !== null) return triggers;
    throw new CodedError('api/access-unavailable', 'the database of deployments is gone');
  };
  const readNowMs = (): number => machine.now().getTime();
  const takeTurn = createTurns();
  let held: HeldArtifacts | null = null;
  const openHeld = (): HeldArtifacts => (held ??= openHeldArtifacts(env));
  const openSources = async (): Promise<TriggerStore['sources']> => (await requireTriggers()).sources;

  const startReader = async ({ source, ...enabled }: EnabledSource): Promise<Loop> => {
    const problems = createProblemLog({ id: enabled.id, openSources, nowMs: readNowMs, log });
    if (source.kind === 'outbox')
      return readOutbox(
        { ...enabled, source },
        {
          openTriggers: requireTriggers,
          readAllowed: () => readAllowedSources(env.stateDir),
          readSecrets,
          problems,
          nowMs: readNowMs,
          wake,
        },
      );
    return watchFolder(
      { ...enabled, source },
      {
        openTriggers: requireTriggers,
        readAllowed: () => readAllowedSources(env.stateDir),
        problems,
        takeTurn,
        artifacts: (await machine.stores()).artifacts,
        held: openHeld(),
        requireRoom: () => requireRoom(env.stateDir),
        nowMs: readNowMs,
        wake,
        ...(leastPauseMs === undefined ? {} : { leastPauseMs }),
      },
    );
  };
  const readers = new Map<string, Loop>();
  const compare = async (signal: AbortSignal): Promise<void> => {
    const triggers = await openTriggers();
    if (triggers === null) return;
    const sources = listEnabledSources(await listEnabled(triggers.deployments));
    const enabled = new Map(sources.map((each) => [nameReader(each), each]));
    const ended = [...readers].filter(([name]) => !enabled.has(name));
    for (const [name] of ended) readers.delete(name);
    // A reader of an earlier version must not accept deliveries beside the one of the next version.
    await Promise.all(ended.map(async ([, reader]) => await reader.close()));
    const began = [...enabled].filter(([name]) => !readers.has(name));
    if (ended.length > 0 || began.length > 0 || isFirst)
      await (await openSources()).keepOnly([...enabled.values()].map(({ id }) => id));
    isFirst = false;
    for (const [name, each] of began) {
      if (signal.aborted) return;
      readers.set(name, await startReader(each));
    }
  };
  // A trigger may have ended while no service ran.
  let isFirst = true;
  const loop = startLoop({
    leastMs: LEAST_MS,
    async scan(signal) {
      await compare(signal).catch((error: Error) => log(`sources of triggers: ${error.message}`));
      return LIST_EVERY_MS;
    },
  });
  return {
    wake: loop.wake,
    async sweep({ sources, deliveries }, atMs) {
      await sources.sweep(atMs);
      await sweepHeld(openHeld(), deliveries, atMs);
    },
    async close() {
      await loop.close();
      await Promise.all([...readers.values()].map(async (reader) => await reader.close()));
    },
  };
}

/** Readers with equal names read the same for the same version. */
function nameReader({ id, version, source }: EnabledSource): string {
  return JSON.stringify([id.deployment, id.trigger, version, source]);
}

/** @throws CodedError `host/disk-full` */
function requireRoom(stateDir: string): void {
  const { isLow, availableBytes } = readDiskRoom(stateDir);
  if (isLow)
    throw new CodedError(
      'host/disk-full',
      `the disk of ${stateDir} has ${availableBytes} bytes left, which are reserved for runs`,
    );
}
