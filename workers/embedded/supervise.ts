/**
 * Runs an embedded stack from its start to its end: keeps a Temporal dev server and a worker running, and publishes
 * their ports. The kernel ends its children when this process dies, however it dies.
 */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { durabilityOf, readEnvironment } from '../../setup/environment.ts';
import type { StackPieces } from '../../setup/pieces/host-pieces.ts';
import { workerArgs } from '../../setup/worker-command.ts';
import { hostId } from '../host/host-id.ts';
import { createLog, textOf, type Log } from '../log.ts';
import { openCappedLog } from './capped-log.ts';
import { childLog } from './child-log.ts';
import { readAllowedMounts } from '../../client/embedded/allowed-mounts.ts';
import { folderId, type ListenState, type StackAnswer, type StackOp } from '../../client/embedded/control.ts';
import { openControl } from './control-server.ts';
import { watchFolder, type FolderWatch } from './folder-watch.ts';
import { watchIdle } from './idle-watch.ts';
import { startRestarting, type ChildCommand, type RestartingProcess } from './restarting-process.ts';
import { keepDatabase, prepareDatabase } from './new-database.ts';
import { freePorts, isFree } from './ports.ts';
import { restrictToOwner } from './private-files.ts';
import { secretHostName, serverCommand, type ServerPorts } from './server-process.ts';
import { createMapping } from '../../domain/units/mapping.ts';
import { isDatabaseVariable } from '../../client/embedded/spawn-supervisor.ts';
import { skillPaths } from '../../client/embedded/skill-paths.ts';
import { keepStackFile, logsDir, removeStackFile, type StackInfo } from '../../client/embedded/stack-info.ts';
import { keepStackPorts, readStackPorts, type StackPorts } from '../../client/embedded/stack-ports.ts';
import { type ApiDoors, openApiDoors } from './api-doors.ts';
import { createEmbeddedPostgres, type EmbeddedPostgres } from './postgres/embedded-postgres.ts';
import { openUiDoor, type UiDoor } from './ui-door.ts';
import { createUiPages, type UiPages } from './ui-pages.ts';

const NAMESPACE = 'default';
const FILE_CHECK_MS = 1_000;
/** The command that started the stack looks every 50 ms whether it is up. */
const FIRST_USE_MS = 3_000;
/** The worker detaches from its attempts within this time; then the server writes its database. */
const WORKER_GRACE_MS = 20_000;
const SERVER_GRACE_MS = 10_000;
/** Before the supervisor has read the file. */
const NOT_LISTENING: ListenState = { phase: 'starting', problem: null, publicUrl: null, listeners: [] };
/** How the line begins that a worker prints when it polls. */
const WORKER_READY_LINE = 'voidbox-worker ready';

export interface SupervisorOptions {
  readonly stateDir: string;
  readonly cacheDir: string;
  readonly build: string;
  readonly pieces: StackPieces;
  /** Without open runs for this long, the stack ends. */
  readonly idleLimitMs: number;
}

/** Settles when the stack has ended: false when it never came up. */
export async function supervise(options: SupervisorOptions): Promise<boolean> {
  return await new Supervisor(options).run();
}

class Supervisor {
  readonly #options: SupervisorOptions;
  readonly #log: Log;
  readonly #folder: FolderWatch;
  readonly #startedAtMs = Date.now();
  readonly #httpHost = secretHostName();
  readonly #pages: UiPages;
  readonly #database: EmbeddedPostgres;
  readonly #ended: Promise<boolean>;
  #settle: (wasUp: boolean) => void = () => undefined;
  #server: RestartingProcess | null = null;
  #worker: RestartingProcess | null = null;
  #ui: UiDoor | null = null;
  #control: { close(): void } | null = null;
  #api: ApiDoors | null = null;
  #timers: readonly NodeJS.Timeout[] = [];
  #ports: ServerPorts | null = null;
  readonly #portsBefore: StackPorts | null;
  #workerReady = false;
  #stopping = false;
  #published: StackInfo | null = null;
  #publishedAtMs = 0;
  #lastUsedMs = Date.now();
  #fileProblem: string | null = null;

  constructor(options: SupervisorOptions) {
    const { stateDir, pieces } = options;
    restrictToOwner(stateDir);
    const file = openCappedLog(join(logsDir(stateDir), 'supervisor.log'));
    const pagesLog = openCappedLog(join(logsDir(stateDir), 'temporal-ui.log'));
    this.#options = options;
    this.#portsBefore = readStackPorts(stateDir);
    this.#log = createLog('supervisor', (line) => file.write(line));
    this.#pages = createUiPages({
      pieces,
      env: readVariables(),
      onLine: (line) => pagesLog.write(`${line}\n`),
    });
    this.#database = this.#createDatabase();
    this.#ended = new Promise((resolve) => (this.#settle = resolve));
    this.#folder = watchFolder({ stateDir, onGone: () => void this.#leave() });
  }

  async run(): Promise<boolean> {
    // Install the handlers before the start: a signal ends every process that has started until then.
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => void this.#stop(signal));
    await this.#start();
    return await this.#ended;
  }

  /** Starts the stack and closes each proxy that opens while the stack stops, because `#stop` does not know it. */
  async #start(): Promise<void> {
    const { stateDir } = this.#options;
    const ui = await openUiDoor({
      port: this.#portsBefore?.ui ?? null,
      api: () => (this.#ports === null ? null : { port: this.#ports.http, hostName: this.#httpHost }),
      pagesPort: () => this.#pages.port(),
      onProblem: (message) => this.#log('warning', `UI: ${message}`),
    });
    if (this.#stopping) return ui.close();
    this.#ui = ui;
    this.#server = this.#keepServer();
    this.#worker = this.#keepWorker();
    const control = await openControl({
      stateDir,
      answer: (op, users) => this.#answer(op, users),
      onProblem: (message) => this.#log('warning', message),
    });
    if (this.#stopping) return control.close();
    this.#control = control;
    const api = await openApiDoors({ ...this.#options, keeper: this.#options.pieces.keeper, log: this.#log });
    if (this.#stopping) return await api.close();
    this.#api = api;
    const idle = watchIdle({
      idleLimitMs: this.#options.idleLimitMs,
      namespace: NAMESPACE,
      address: () => (this.#ports === null ? null : addressOf(this.#ports)),
      lastUsedMs: () => Math.max(this.#lastUsedMs, api.lastUsedMs()),
      log: this.#log,
      stop: (why) => this.#stop(why),
    });
    this.#timers = [idle, setInterval(() => this.#keepFile(), FILE_CHECK_MS)];
  }

  #createDatabase(): EmbeddedPostgres {
    const { stateDir, cacheDir, pieces } = this.#options;
    const log = openCappedLog(join(logsDir(stateDir), 'postgres.log'));
    return createEmbeddedPostgres({
      stateDir,
      keeper: pieces.keeper,
      pieces: async () => {
        // Most stacks have no database.
        const { resolveDatabasePieces } = await import('../../setup/resolve.ts');
        return await resolveDatabasePieces({ ...readEnvironment(), cacheDir }, { install: false });
      },
      isGone: () => this.#folder.isGone(),
      onLine: (line) => log.write(`${line}\n`),
      onProblem: (message) => this.#log('warning', message),
    });
  }

  #keepServer(): RestartingProcess {
    const says = childLog(
      'the Temporal server',
      join(logsDir(this.#options.stateDir), 'temporal.log'),
      this.#log,
      (what, words) => this.#giveUp(what, words),
    );
    return startRestarting({
      env: readVariables(),
      command: async () => {
        if (this.#ports === null || !(await isFree(this.#ports.grpc)) || !(await isFree(this.#ports.http))) {
          const moved = this.#ports !== null;
          this.#ports = await this.#choosePorts();
          if (moved) this.#worker?.restart();
        }
        // Another folder's database is not to be looked at, much less removed.
        if (this.#folder.isGone()) throw new Error(`the state folder ${this.#options.stateDir} is gone`);
        if (prepareDatabase(this.#options.stateDir))
          this.#log('warning', 'the database of a server that never came up is created again');
        const durability = durabilityOf(readEnvironment(), 'embedded');
        return serverCommand({ ...this.#options, ports: this.#ports, httpHost: this.#httpHost, durability });
      },
      onLine: says.line,
      onStart: (pid) => {
        if (this.#ports !== null)
          this.#log('info', `Temporal server ${pid} starts on ${addressOf(this.#ports)}, UI on ${this.#uiUrl()}`);
        this.#publish();
      },
      onEnd: says.ended,
    });
  }

  /** With the gRPC port that clients of this folder know already, when it is free. Never one port for both. */
  async #choosePorts(): Promise<ServerPorts> {
    const before = this.#portsBefore?.grpc;
    const [first, second] = (await freePorts(2)) as [number, number];
    if (before === undefined || before === this.#ui?.port || !(await isFree(before)))
      return { grpc: first, http: second };
    return { grpc: before, http: first === before ? second : first };
  }

  #keepWorker(): RestartingProcess {
    const says = childLog('the worker', join(logsDir(this.#options.stateDir), 'worker.log'), this.#log, (what, words) =>
      this.#giveUp(what, words),
    );
    return startRestarting({
      env: readVariables(),
      command: async () => {
        // The worker loads its code while the server starts, and waits for the server.
        while (this.#ports === null) await sleep(10);
        return workerCommand(this.#options, this.#ports);
      },
      onLine: (line) => {
        if (!line.startsWith(WORKER_READY_LINE)) return says.line(line);
        if (!this.#folder.isGone()) keepDatabase(this.#options.stateDir);
        this.#workerReady = true;
        this.#log('info', `worker ${this.#worker?.pid()} is ready`);
        this.#publish();
      },
      onStart: (pid) => this.#log('info', `worker ${pid} starts`),
      onEnd: says.ended,
    });
  }

  #publish(): void {
    const { build, stateDir } = this.#options;
    const [serverPid, workerPid] = [this.#server?.pid() ?? null, this.#worker?.pid() ?? null];
    if (
      this.#stopping ||
      this.#folder.isGone() ||
      !this.#workerReady ||
      this.#ports === null ||
      serverPid === null ||
      workerPid === null
    )
      return;
    if (this.#published === null) this.#publishedAtMs = Date.now();
    const pids = { supervisorPid: process.pid, serverPid, workerPid };
    const id = hostId(stateDir);
    this.#published = {
      address: addressOf(this.#ports),
      namespace: NAMESPACE,
      uiUrl: this.#uiUrl(),
      ...pids,
      build,
      hostId: id,
      startedAtMs: this.#startedAtMs,
    };
    this.#keepFile();
  }

  /** Writes the file again if its content has changed, because people and other tools read it. */
  #keepFile(): void {
    // If another folder has replaced this stack's, the file would describe the wrong stack.
    if (this.#published === null || this.#stopping || this.#folder.isGone()) return;
    try {
      keepStackFile(this.#options.stateDir, this.#published);
      if (this.#ports !== null && this.#ui !== null)
        keepStackPorts(this.#options.stateDir, { grpc: this.#ports.grpc, ui: this.#ui.port });
      this.#fileProblem = null;
    } catch (error) {
      // The usual cause is a full disk. The stack stays up, and writes the file once there is room.
      if (this.#fileProblem !== textOf(error)) this.#log('warning', `stack.json cannot be written: ${textOf(error)}`);
      this.#fileProblem = textOf(error);
    }
  }

  #answer(op: StackOp, users: number): StackAnswer {
    const { stateDir, build } = this.#options;
    // The command that started the stack has not seen it before it is up.
    const inUse = users > 0 || Date.now() - this.#publishedAtMs < FIRST_USE_MS;
    if (op === 'use' || op === 'database' || op === 'listen') this.#lastUsedMs = Date.now();
    if (op === 'database' && !this.#stopping) this.#database.start();
    if (op === 'listen' && !this.#stopping) this.#api?.applyListen();
    if (op === 'stop') void this.#stop('a command asks for it');
    if (op === 'yield' && !inUse) void this.#stop('a command of another build asks for it');
    this.#keepFile();
    const phase = this.#stopping ? 'stopping' : this.#published === null ? 'starting' : 'up';
    return {
      voidbox: 'stack',
      phase,
      pid: process.pid,
      build,
      folder: folderId(stateDir) ?? '',
      inUse: op === 'yield' && inUse,
      info: this.#published,
      database: this.#database.state(),
      listen: this.#api?.getListenState() ?? NOT_LISTENING,
    };
  }

  #giveUp(what: string, words: readonly string[]): void {
    if (this.#published !== null || this.#stopping) return;
    // The command that started the stack reads the reason from standard error.
    process.stderr.write(`${words.join('\n')}\n`);
    void this.#stop(`${what} does not start`);
  }

  async #leave(): Promise<void> {
    const why = `the state folder ${this.#options.stateDir} was removed or replaced by another folder`;
    // The folder's logs are gone with it.
    process.stderr.write(`voidbox: the embedded stack stops: ${why}\n`);
    await this.#stop(why);
  }

  async #stop(why: string): Promise<void> {
    if (this.#stopping) return;
    this.#stopping = true;
    for (const timer of this.#timers) clearInterval(timer);
    this.#log('info', `stops: ${why}`);
    if (!this.#folder.isGone()) removeStackFile(this.#options.stateDir);
    this.#folder.stop();
    this.#ui?.close();
    await Promise.all([this.#worker?.stop(WORKER_GRACE_MS), this.#pages.stop(), this.#api?.close()]);
    await Promise.all([this.#server?.stop(SERVER_GRACE_MS), this.#database.stop()]);
    this.#log('info', 'stopped');
    this.#control?.close();
    this.#settle(this.#published !== null);
  }

  #uiUrl(): string {
    return `http://127.0.0.1:${this.#ui?.port}`;
  }
}

/** Reads the variables of the children that must not know the database of tokens, which may have a password. */
function readVariables(): Readonly<Record<string, string | undefined>> {
  const all = Object.entries(readEnvironment().variables);
  return createMapping(all.filter(([name]) => !isDatabaseVariable(name)));
}

function addressOf({ grpc }: ServerPorts): string {
  return `127.0.0.1:${grpc}`;
}

function workerCommand({ pieces, stateDir }: SupervisorOptions, ports: ServerPorts): ChildCommand {
  const server = ['--address', addressOf(ports), '--namespace', NAMESPACE];
  const skills = skillPaths(stateDir).flatMap((path) => ['--skills', path]);
  const mounts = readAllowedMounts(stateDir).flatMap((folder) => ['--allow-mounts', folder]);
  return {
    file: pieces.keeper,
    args: [
      'tie',
      '--',
      process.execPath,
      ...workerArgs(),
      '--embedded',
      ...server,
      '--state-dir',
      stateDir,
      '--keeper',
      pieces.keeper,
      ...skills,
      ...mounts,
    ],
  };
}
