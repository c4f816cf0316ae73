/**
 * Adds Voidbox to another project's worker: its activities run together with the worker's own, and a second Worker in the same
 * process, over the same connection, polls the queues of this host. It runs as long as the worker.
 */
import { extname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Client } from '@temporalio/client';
import {
  type LogLevel,
  NativeConnection,
  Runtime,
  Worker,
  type WorkerOptions,
  type WorkerPlugin,
} from '@temporalio/worker';
import type { CommandActivities } from '../activities/contract-command.ts';
import type { Activities } from '../activities/contract.ts';
import { LOCAL_ACTIVITIES } from '../activities/calls/local-activities.ts';
import type { LentVariables } from '../activities/ports/lent-variables.ts';
import { createCommandActivities } from '../activities/attempt/run-command.ts';
import { durabilityOf, type Environment, readEnvironment } from '../setup/environment.ts';
import { resolveStackPieces } from '../setup/resolve.ts';
import { openLocalStore } from '../store/open-stores.ts';
import { keepStateFormatWithAdvice } from '../store/state-format.ts';
import { SetupError } from '../setup/setup-error.ts';
import { ACTIVITY_OPTIONS } from '../workflows/activity-options.ts';
import { watchDisk } from './host/disk-watch.ts';
import { hostId as readHostId } from './host/host-id.ts';
import { type Host, openHost } from './host/host.ts';
import { imageDisks, lazyExtras, lazyPieces } from './host/lazy-pieces.ts';
import { createLentVariables } from './lent-variables.ts';
import type { Log } from './log.ts';
import { createMockSandboxes } from './host/mock-sandboxes.ts';
import { readAllowedPlace } from '../domain/plan/git-place.ts';
import { loadBinding } from './host/load-binding.ts';
import { createHostSandboxes, type HostSandboxes } from './host/sandboxes.ts';
import { HOST_WORKER_OPTIONS } from './workers.ts';
import { readAllowedService } from '../domain/language/read/egress-rules.ts';

export interface VoidboxPluginOptions {
  /** The state folder, with runs, outputs and VMs of this host. Only one worker process can use it. Default: the folder that `voidbox` uses. */
  readonly stateDir?: string;
  /** `mock` simulates every command, whatever a plan asks for: for tests without VMs. */
  readonly sandbox?: 'mock';
  /** Host folders that pipelines and commands may mount. Default: none. */
  readonly allowMounts?: readonly string[];
  /** Repositories of the network, as `host/path`, that runs may fetch with the login of the worker's user; also all paths below them. Default: none. */
  readonly allowGit?: readonly string[];
  /** Services, as `host:port`, that VMs may reach on this host and its network. Default: none. */
  readonly allowServices?: readonly string[];
  /** Lets runs keep the VMs of failed stages for inspection, for an hour at most (`keep: on-failure`). Default: false. */
  readonly allowKeep?: boolean;
  /** Lets `voidbox exec` enter the VMs of stages that run. Default: false. */
  readonly allowExec?: boolean;
  /** Lends every variable of this file to stages that name it in `secrets`: lines NAME=value, mode 0600, of the worker's user. */
  readonly secretsFile?: string;
  /** Lends these variables of the worker's environment. Default: none. */
  readonly allowEnv?: readonly string[];
  /** A name for the server, if it does not report the id of its cluster. It must not change while runs are open. */
  readonly server?: string;
}

/**
 * Adds Voidbox's activities to a Worker.
 *
 * @example
 * ```ts
 * const worker = await Worker.create({
 *   connection,
 *   taskQueue: 'orders',
 *   workflowsPath: require.resolve('./workflows'), // exports voidboxRun and voidboxItems too
 *   activities,
 *   plugins: [createVoidboxPlugin({ allowMounts: ['/srv/data'] })],
 * });
 * await worker.run();
 * ```
 */
export function createVoidboxPlugin(options: VoidboxPluginOptions = {}): WorkerPlugin {
  return new VoidboxPlugin(options);
}

type AllActivities = Activities & CommandActivities;

const NAMES = [
  ...(Object.keys(ACTIVITY_OPTIONS) as (keyof Activities)[]),
  ...(['placeCommand', 'runCommand', 'readOutput'] as const),
] satisfies (keyof AllActivities)[];

/** All of them; the compiler finds one that is missing. */
const OPTIONS: Readonly<Record<keyof VoidboxPluginOptions, true>> = {
  stateDir: true,
  sandbox: true,
  allowMounts: true,
  allowGit: true,
  allowServices: true,
  allowKeep: true,
  allowExec: true,
  secretsFile: true,
  allowEnv: true,
  server: true,
};

/** For a bundle that the Worker makes. In a bundle that exists, a run ignores messages without a handler. */
function withOwnModule(interceptors: WorkerOptions['interceptors']): NonNullable<WorkerOptions['interceptors']> {
  const module = fileURLToPath(new URL(`../workflows/interceptors${extname(import.meta.url)}`, import.meta.url));
  return { ...interceptors, workflowModules: [...(interceptors?.workflowModules ?? []), module] };
}

class VoidboxPlugin implements WorkerPlugin {
  readonly name = 'voidbox';
  readonly #options: VoidboxPluginOptions;
  /** Task queue of the Worker that uses this plugin; null before. */
  #taskQueue: string | null = null;
  #hostQueue: string | null = null;
  #ownConnection: NativeConnection | null = null;
  #activities: AllActivities | null = null;

  constructor(options: VoidboxPluginOptions) {
    const unknown = Object.keys(options).find((name) => !Object.hasOwn(OPTIONS, name));
    if (unknown !== undefined)
      throw new TypeError(
        `createVoidboxPlugin: there is no option \`${unknown}\`; there are ${Object.keys(OPTIONS).join(', ')}`,
      );
    const { sandbox, allowMounts = [], allowGit = [], allowServices = [], allowEnv = [] } = options;
    // JavaScript callers may pass any value, and an unknown word must not mean a VM.
    if (sandbox !== undefined && sandbox !== 'mock')
      throw new TypeError(`createVoidboxPlugin: \`sandbox\` is ${JSON.stringify(sandbox)}; it is 'mock' or left out`);
    if (!Array.isArray(allowMounts) || allowMounts.some((folder) => typeof folder !== 'string'))
      throw new TypeError('createVoidboxPlugin: `allowMounts` must be a list of folders');
    if (
      !Array.isArray(allowGit) ||
      allowGit.some((place) => typeof place !== 'string' || readAllowedPlace(place) === null)
    )
      throw new TypeError(
        'createVoidboxPlugin: `allowGit` must be a list of `host/path`, where `*` is no pattern: `host/owner` allows what lies below it',
      );
    if (
      !Array.isArray(allowServices) ||
      allowServices.some((service) => typeof service !== 'string' || readAllowedService(service) === null)
    )
      throw new TypeError(
        'createVoidboxPlugin: `allowServices` must be a list of `host:port`, where `*` is no pattern: name each service',
      );
    if (options.allowKeep !== undefined && typeof options.allowKeep !== 'boolean')
      throw new TypeError('createVoidboxPlugin: `allowKeep` must be true or false');
    if (options.allowExec !== undefined && typeof options.allowExec !== 'boolean')
      throw new TypeError('createVoidboxPlugin: `allowExec` must be true or false');
    if (!Array.isArray(allowEnv) || allowEnv.some((name) => typeof name !== 'string'))
      throw new TypeError('createVoidboxPlugin: `allowEnv` must be a list of names');
    this.#options = {
      ...options,
      allowMounts: allowMounts.map((folder: string) => resolve(folder)),
      allowGit: allowGit.map((place: string) => readAllowedPlace(place)!),
      allowServices: allowServices.map((service: string) => readAllowedService(service)!),
    };
  }

  async configureWorker(options: WorkerOptions): Promise<WorkerOptions> {
    const { taskQueue, activities = {} } = options;
    // If the connection has the plugin, Temporal also applies it to the host's Worker.
    if (this.#hostQueue !== null && taskQueue === this.#hostQueue) return options;
    if (this.#taskQueue !== null)
      throw new Error(
        `the Voidbox plugin of the Worker on ${this.#taskQueue} was given to a Worker on ${taskQueue} as well: create another plugin, with a stateDir of its own`,
      );
    const taken = [...NAMES, ...Object.keys(LOCAL_ACTIVITIES)].filter((name) => Object.hasOwn(activities, name));
    if (taken.length > 0)
      throw new Error(
        `the Worker has activities of its own with names that Voidbox needs: ${taken.join(', ')}. Rename them, or run them in another Worker`,
      );
    this.#taskQueue = taskQueue;
    const connection = options.connection ?? (this.#ownConnection = await NativeConnection.connect());
    // Only the copy of the SDK that runs an activity finds its context.
    if (!(connection instanceof NativeConnection))
      throw new Error(
        'the Worker and Voidbox have different copies of the Temporal SDK: install every @temporalio package in the version that voidbox names as its peer, and compare `npm ls @temporalio/worker`',
      );
    return {
      ...options,
      connection,
      activities: { ...activities, ...this.#delegates(), ...LOCAL_ACTIVITIES },
      ...(options.workflowsPath === undefined ? {} : { interceptors: withOwnModule(options.interceptors) }),
    };
  }

  /** The host behind these activities is ready before the worker polls. */
  #delegates(): Readonly<Record<string, (request: never) => Promise<unknown>>> {
    return Object.fromEntries(
      NAMES.map((name) => [
        name,
        (request: never): Promise<unknown> => {
          const activities = this.#activities;
          if (activities === null) throw new Error('the Voidbox plugin is not running');
          return (activities[name] as (request: never) => Promise<unknown>)(request);
        },
      ]),
    );
  }

  async runWorker(worker: Worker, next: (worker: Worker) => Promise<void>): Promise<void> {
    const { taskQueue } = worker.options;
    if (taskQueue === this.#hostQueue) return await next(worker);
    const { client, connection } = worker;
    if (client === undefined || connection === undefined) return await next(worker);
    try {
      await this.#serve(worker, client, connection, next);
    } finally {
      this.#taskQueue = null;
      this.#hostQueue = null;
      await this.#ownConnection?.close();
      this.#ownConnection = null;
    }
  }

  async #serve(
    worker: Worker,
    client: Client,
    connection: NativeConnection,
    next: (worker: Worker) => Promise<void>,
  ): Promise<void> {
    const env = readEnvironment();
    const stateDir = resolve(this.#options.stateDir ?? env.stateDir);
    keepStateFormatWithAdvice(stateDir);
    const log = logOf(worker);
    // Next: on a full disk it makes room for what follows.
    const disk = watchDisk(openLocalStore({ stateDir }), env.diskFullLimitMs, log);
    try {
      const hostId = readHostId(stateDir);
      const { taskQueue, namespace, dataConverter } = worker.options;
      // Not the queue of Voidbox's own workers, whose policy may be another one.
      const hostQueue = `voidbox-plugin:${hostId}:${taskQueue}`;
      this.#hostQueue = hostQueue;
      const host = await openHost({
        client,
        connection,
        stateDir,
        hostId,
        hostQueue,
        serverId: await serverIdOf(this.#options.server, connection, namespace),
        sandboxes: await this.#sandboxes(env, stateDir, log),
        mountPolicy: {
          allowedRoots: this.#options.allowMounts ?? [],
          allowedGit: this.#options.allowGit ?? [],
        },
        starters: 'any',
        servicePolicy: this.#options.allowServices ?? [],
        allowsRetention: this.#options.allowKeep === true,
        durability: durabilityOf(env, 'own'),
        lentVariables: await this.#lentVariables(env),
        // The user's git settings: logins for the addresses that `allowGit` names, and ignore rules.
        git: {
          path: env.path,
          home: env.variables['HOME'] || null,
          configHome: env.variables['XDG_CONFIG_HOME'] || null,
        },
        disk: disk.pump,
        orphanTimeoutMs: env.orphanTimeoutMs,
        log,
      });
      try {
        const commands = createCommandActivities(host.deps);
        this.#activities = { ...host.sharedActivities, ...commands };
        const hostWorker = await Worker.create({
          ...HOST_WORKER_OPTIONS,
          connection,
          namespace,
          taskQueue: hostQueue,
          activities: { ...host.activities, ...commands },
          ...(dataConverter === undefined ? {} : { dataConverter }),
        });
        await runTogether(worker, hostWorker, next, host);
      } finally {
        this.#activities = null;
        await host.close();
      }
    } finally {
      disk.stop();
    }
  }

  /** Reports a variable that cannot be lent at the start, not at the first command. */
  async #lentVariables({ variables, undecodable }: Environment): Promise<LentVariables> {
    const { secretsFile, allowEnv = [] } = this.#options;
    const missing = allowEnv.filter((name) => variables[name] === undefined);
    if (missing.length > 0)
      throw new Error(`createVoidboxPlugin: \`allowEnv\` names ${missing.join(', ')}, not set in this process`);
    const lent = createLentVariables({
      secretsFile: secretsFile === undefined ? null : resolve(secretsFile),
      allowed: allowEnv,
      environment: variables,
      undecodable,
    });
    await lent.read();
    return lent;
  }

  /** @throws Error that says how to set the host up */
  async #sandboxes(env: Environment, stateDir: string, log: Log): Promise<HostSandboxes> {
    if (this.#options.sandbox === 'mock') return createMockSandboxes();
    const { bootTimeoutMs, diskFullLimitMs, orphanTimeoutMs, snapshots, cpuTemplate } = env;
    try {
      const { keeper } = await resolveStackPieces(env, { install: false });
      await loadBinding(env, log);
      return createHostSandboxes({
        keeper,
        pieces: lazyPieces(env),
        extra: lazyExtras(env),
        disk: imageDisks(env),
        stateDir,
        bootTimeoutMs,
        diskFullLimitMs,
        orphanTimeoutMs,
        snapshots,
        cpuTemplate,
        allowsExec: this.#options.allowExec === true,
        // Workers of programs have no option for it.
        warm: [],
        log,
      });
    } catch (error) {
      if (!(error instanceof SetupError)) throw error;
      throw new Error(
        `this host cannot run VMs yet: ${error.message} ${error.remedy ?? ''} Or simulate commands: createVoidboxPlugin({ sandbox: 'mock' })`,
        { cause: error },
      );
    }
  }
}

/** Each ends with the other. */
async function runTogether(
  worker: Worker,
  hostWorker: Worker,
  next: (worker: Worker) => Promise<void>,
  host: Host,
): Promise<void> {
  const stopCare = await host.care();
  const stop = (other: Worker) => () => {
    if (other.getState() === 'RUNNING') other.shutdown();
  };
  const ends = await Promise.allSettled([
    next(worker).finally(stop(hostWorker)),
    hostWorker.run().finally(stop(worker)),
  ]);
  await stopCare();
  const failed = ends.find((end) => end.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
}

/** A run belongs to the server that knows it. A connection does not reveal its address, and two names may mean one server. */
async function serverIdOf(name: string | undefined, connection: NativeConnection, namespace: string): Promise<string> {
  if (name !== undefined) return `${name}/${namespace}`;
  const clusterId = await connection.workflowService.getClusterInfo({}).then(
    ({ clusterId: id }) => id,
    () => null,
  );
  if (clusterId) return `cluster ${clusterId}/${namespace}`;
  throw new Error(
    'the Temporal server does not tell the id of its cluster: name it yourself, createVoidboxPlugin({ server: NAME }), and keep the name',
  );
}

function logOf(worker: Worker): Log {
  const levels = { info: 'INFO', warning: 'WARN', error: 'ERROR' } as const satisfies Record<string, LogLevel>;
  const { taskQueue } = worker.options;
  const { logger } = Runtime.instance();
  return (level, message) => logger.log(levels[level], `voidbox: ${message}`, { taskQueue });
}
