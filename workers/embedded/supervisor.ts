/**
 * The one process that owns an embedded stack: it holds the state folder's lock for its life (it was started
 * through `voidbox-vm lock`), keeps a Temporal dev server and a worker running, and ends itself when nobody
 * needs it. Its children are tied to it: when it dies, however it dies, they die.
 */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Connection } from '@temporalio/client';
import { readEnvironment } from '../../setup/environment.ts';
import type { StackPieces } from '../../setup/host-pieces.ts';
import { packageRoot } from '../../setup/package-root.ts';
import { RUN_WORKFLOW_TYPE, SESSION_WORKFLOW_TYPE } from '../../workflows/messages.ts';
import { hostId } from '../host-id.ts';
import { createLog, textOf, type Log } from '../log.ts';
import { openCappedLog } from './capped-log.ts';
import { keepChild, type ChildCommand } from './kept-child.ts';
import { skillPaths } from './skill-paths.ts';
import { keepDatabase, prepareDatabase } from './new-database.ts';
import { freePort, isFree } from './ports.ts';
import { closeToOthers } from './private-files.ts';
import { secretHostName, serverCommand, type ServerPorts } from './server-process.ts';
import { folderId, type StackAnswer, type StackOp } from './control.ts';
import { openControl } from './control-server.ts';
import { keepStackFile, logsDir, removeStackFile, type StackInfo } from './stack-info.ts';
import { openUiDoor } from './ui-door.ts';
import { createUiPages } from './ui-pages.ts';

const NAMESPACE = 'default';
/** Without open runs for this long, the stack ends. */
const IDLE_LIMIT_MS = 10 * 60_000;
const IDLE_CHECK_MS = 15_000;
const FILE_CHECK_MS = 1_000;
/** The command that started the stack looks every 50 ms whether it is up. */
const FIRST_USE_MS = 3_000;
/** The worker lets go of its attempts within this; the server then writes its database. */
const WORKER_GRACE_MS = 20_000;
const SERVER_GRACE_MS = 10_000;
/** A stack whose server or worker ends so often before the first client could use it is given up. */
const FAILED_STARTS_LIMIT = 3;
/** What somebody is told of a child that does not start: its end, which says why. */
const LAST_LINES = 12;
const EXIT_NOT_STARTED = 1;
/** How the line begins that a worker prints when it polls. */
const WORKER_READY_LINE = 'voidbox-worker ready';

interface SupervisorOptions {
  readonly stateDir: string;
  readonly cacheDir: string;
  readonly build: string;
  readonly pieces: StackPieces;
  readonly idleLimitMs: number;
}

/** Settles when the stack has ended: false when it never came up. */
export async function supervise(options: SupervisorOptions): Promise<boolean> {
  const { stateDir, pieces } = options;
  closeToOthers(stateDir);
  const file = openCappedLog(join(logsDir(stateDir), 'supervisor.log'));
  const log = createLog('supervisor', (line) => file.write(line));
  const startedAtMs = Date.now();
  const env = readEnvironment().variables;
  let ports: ServerPorts | null = null;
  let workerReady = false;
  let stopping = false;
  let wasUp = false;
  const httpHost = secretHostName();
  const pagesLog = openCappedLog(join(logsDir(stateDir), 'temporal-ui.log'));
  const pages = createUiPages({ pieces, env, onLine: (line) => pagesLog.write(`${line}\n`) });
  const ui = await openUiDoor({
    api: () => (ports === null ? null : { port: ports.http, hostName: httpHost }),
    pagesPort: () => pages.port(),
    onProblem: (message) => log('warning', `UI: ${message}`),
  });
  const uiUrl = `http://127.0.0.1:${ui.port}`;

  let published: StackInfo | null = null;
  let publishedAtMs = 0;
  let lastUsedMs = startedAtMs;
  /** The file is what people and other tools look at: what else may stand in it, it comes back. */
  let fileProblem: string | null = null;
  const keepFile = (): void => {
    if (published === null || stopping) return;
    try {
      keepStackFile(stateDir, published);
      fileProblem = null;
    } catch (error) {
      // Often a full disk. The stack is up all the same, and the file comes once there is room.
      if (fileProblem !== textOf(error)) log('warning', `stack.json cannot be written: ${textOf(error)}`);
      fileProblem = textOf(error);
    }
  };
  const publish = (): void => {
    const serverPid = server.pid();
    const workerPid = worker.pid();
    if (stopping || !workerReady || ports === null || serverPid === null || workerPid === null) return;
    const { build } = options;
    const pids = { supervisorPid: process.pid, serverPid, workerPid };
    if (published === null) publishedAtMs = Date.now();
    published = { address: addressOf(ports), namespace: NAMESPACE, uiUrl, ...pids, build, hostId: hostId(stateDir), startedAtMs };
    keepFile();
    wasUp = true;
  };

  const giveUp = (what: string, words: readonly string[]): void => {
    if (wasUp || stopping) return;
    // Whoever started the stack reads it there.
    process.stderr.write(`${words.join('\n')}\n`);
    void stop(`${what} does not start`);
  };

  const serverSays = childLog('the Temporal server', join(logsDir(stateDir), 'temporal.log'), log, giveUp);
  const server = keepChild({
    env,
    async command() {
      if (ports === null || !(await isFree(ports.grpc)) || !(await isFree(ports.http))) {
        const moved = ports !== null;
        ports = { grpc: await freePort(), http: await freePort() };
        if (moved) worker.restart();
      }
      if (prepareDatabase(stateDir)) log('warning', 'the database of a server that never came up is made anew');
      return serverCommand({ ...options, ports, httpHost });
    },
    onLine: serverSays.line,
    onStart: (pid) => {
      if (ports !== null) log('info', `Temporal server ${pid} starts on ${addressOf(ports)}, UI on ${uiUrl}`);
      publish();
    },
    onEnd: serverSays.ended,
  });

  const workerSays = childLog('the worker', join(logsDir(stateDir), 'worker.log'), log, giveUp);
  const worker = keepChild({
    env,
    async command() {
      // The worker loads its code while the server starts, and waits for it by itself.
      while (ports === null) await sleep(10);
      return workerCommand(options, ports);
    },
    onLine: (line) => {
      if (!line.startsWith(WORKER_READY_LINE)) return workerSays.line(line);
      keepDatabase(stateDir);
      workerReady = true;
      log('info', `worker ${worker.pid()} is ready`);
      publish();
    },
    onStart: (pid) => log('info', `worker ${pid} starts`),
    onEnd: workerSays.ended,
  });

  let settle: (wasUp: boolean) => void;
  const ended = new Promise<boolean>((resolve) => (settle = resolve));
  const stop = async (why: string): Promise<void> => {
    if (stopping) return;
    stopping = true;
    clearInterval(idleTimer);
    log('info', `stops: ${why}`);
    clearInterval(fileTimer);
    removeStackFile(stateDir);
    ui.close();
    await Promise.all([worker.stop(WORKER_GRACE_MS), pages.stop()]);
    await server.stop(SERVER_GRACE_MS);
    log('info', 'stopped');
    control.close();
    settle(wasUp);
  };

  const answerClient = (op: StackOp, users: number): StackAnswer => {
    // The command that started the stack has not seen it before it is up.
    const inUse = users > 0 || Date.now() - publishedAtMs < FIRST_USE_MS;
    if (op === 'use') lastUsedMs = Date.now();
    if (op === 'stop') void stop('a command asks for it');
    if (op === 'yield' && !inUse) void stop('a command of another build asks for it');
    keepFile();
    const phase = stopping ? 'stopping' : published === null ? 'starting' : 'up';
    const { build } = options;
    return { voidbox: 'stack', phase, pid: process.pid, build, folder: folderId(stateDir) ?? '', inUse: op === 'yield' && inUse, info: published };
  };
  const control = await openControl({ stateDir, answer: answerClient, onProblem: (message) => log('warning', message) });
  const fileTimer = setInterval(keepFile, FILE_CHECK_MS);
  const idleTimer = watchIdle({ ...options, address: () => (ports === null ? null : addressOf(ports)), lastUsedMs: () => lastUsedMs, log, stop });
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => void stop(signal));
  return await ended;
}

function addressOf({ grpc }: ServerPorts): string {
  return `127.0.0.1:${grpc}`;
}

function workerCommand({ pieces, stateDir }: SupervisorOptions, ports: ServerPorts): ChildCommand {
  const script = join(packageRoot(), 'dist/workers/main.js');
  const server = ['--address', addressOf(ports), '--namespace', NAMESPACE];
  const skills = skillPaths(stateDir).flatMap((path) => ['--skills', path]);
  return {
    file: pieces.keeper,
    args: ['tie', '--', process.execPath, script, '--embedded', ...server, '--state-dir', stateDir, '--keeper', pieces.keeper, ...skills],
  };
}

interface ChildLog {
  line(line: string): void;
  ended(how: string, nextStartMs: number): void;
}

/** Writes down what a child says and how it ends; at the third end, `onFailures` gets that and its last words. */
function childLog(what: string, logFile: string, log: Log, onFailures: (what: string, words: readonly string[]) => void): ChildLog {
  const file = openCappedLog(logFile);
  const lines: string[] = [];
  let ends = 0;
  return {
    line(line) {
      if (lines.push(line) > LAST_LINES) lines.shift();
      file.write(`${line}\n`);
    },
    ended(how, nextStartMs) {
      ends += 1;
      log('warning', `${what} ended (${how}); it starts again in ${nextStartMs} ms`);
      if (ends >= FAILED_STARTS_LIMIT) onFailures(what, [`${what} ended ${ends} times while it started (${how}); its log is ${logFile}`, ...lines]);
    },
  };
}

interface IdleWatch {
  readonly idleLimitMs: number;
  readonly address: () => string | null;
  /** When a command last said that it is going to use the stack. */
  readonly lastUsedMs: () => number;
  readonly log: Log;
  readonly stop: (why: string) => Promise<void>;
}

/** Stops the stack when it had no open run and no client for its limit. */
function watchIdle({ idleLimitMs, address, lastUsedMs, log, stop }: IdleWatch): NodeJS.Timeout {
  let lastOpenMs = Date.now();
  const look = async (): Promise<void> => {
    const at = address();
    if (at !== null && (await openRuns(at)) > 0) lastOpenMs = Date.now();
    if (Date.now() - Math.max(lastOpenMs, lastUsedMs()) >= idleLimitMs) await stop(`no open run for ${Math.round(idleLimitMs / 1000)} s`);
  };
  return setInterval(
    () => void look().catch((error: unknown) => log('warning', `could not count the open runs: ${textOf(error)}`)),
    Math.min(IDLE_CHECK_MS, idleLimitMs),
  );
}

async function openRuns(address: string): Promise<number> {
  const connection = await Connection.connect({ address, connectTimeout: 5_000 });
  try {
    const { count } = await connection.workflowService.countWorkflowExecutions({
      namespace: NAMESPACE,
      query: `WorkflowType IN ('${RUN_WORKFLOW_TYPE}', '${SESSION_WORKFLOW_TYPE}') AND ExecutionStatus = 'Running'`,
    });
    return Number(count);
  } finally {
    await connection.close();
  }
}

if (process.argv[1]?.endsWith('/embedded/supervisor.js') === true) {
  const { values } = parseArgs({
    options: {
      'state-dir': { type: 'string' },
      'cache-dir': { type: 'string' },
      build: { type: 'string' },
      pieces: { type: 'string' },
      'idle-limit-ms': { type: 'string' },
    },
  });
  const stateDir = values['state-dir'] ?? '';
  removeStackFile(stateDir);
  const isUp = await supervise({
    stateDir,
    cacheDir: values['cache-dir'] ?? '',
    build: values.build ?? '',
    pieces: JSON.parse(values.pieces ?? '') as StackPieces,
    idleLimitMs: Number(values['idle-limit-ms'] ?? IDLE_LIMIT_MS),
  });
  process.exit(isUp ? 0 : EXIT_NOT_STARTED);
}
