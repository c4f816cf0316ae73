/** Builds the command of the embedded stack's Temporal dev server, and closes what it would leave open. */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { Durability } from '../../setup/environment.ts';
import type { StackPieces } from '../../setup/pieces/host-pieces.ts';
import { DATABASE } from '../../client/embedded/database.ts';
import type { ChildCommand } from './restarting-process.ts';

/**
 * With default settings, a dev server waits 40 ms per task and writes its database slowly. It also accepts only 10
 * updates of a workflow at once and 2,000 over its lifetime, too few for a session with a long action. It keeps the
 * last 128,000 workflows in memory for an hour, ended or not, and reads others from the database again.
 */
const SPEED_SETTINGS = [
  ...[
    'history.maxInFlightUpdates=1000',
    'history.maxTotalUpdates=8000',
    'history.hostLevelCacheMaxSize=512',
    'history.transferProcessorMaxPollRPS=2000',
  ].flatMap(dynamic),
  ...pragma('journal_mode=wal'),
];

/** In the write-ahead log, `normal` survives the death of processes, and `full` also a power cut. */
const SYNCHRONOUS: Readonly<Record<Durability, string>> = { process: 'normal', power: 'full' };

export interface ServerPorts {
  readonly grpc: number;
  /** The port of the HTTP API, which cannot be closed. The API answers only clients that know `httpHost`. */
  readonly http: number;
}

/** Returns a host name that no web page can guess: the HTTP API rejects every other `Host`. */
export function secretHostName(): string {
  return `voidbox-${randomBytes(16).toString('hex')}`;
}

export interface ServerOptions {
  readonly pieces: StackPieces;
  readonly stateDir: string;
  readonly ports: ServerPorts;
  readonly httpHost: string;
  readonly durability: Durability;
}

/** Tied to its parent: it dies with the supervisor. */
export function serverCommand({ pieces, stateDir, ports, httpHost, durability }: ServerOptions): ChildCommand {
  return {
    file: pieces.keeper,
    // The database by name and not by path: the server makes a URI of it, in which `#`, `?` and `%` mean something.
    args: devServer(pieces, {
      port: ports.grpc,
      'http-port': ports.http,
      'db-filename': DATABASE,
      'log-level': 'warn',
    }).concat('--headless', SPEED_SETTINGS, pragma(`synchronous=${SYNCHRONOUS[durability]}`), closedSettings(httpHost)),
    cwd: stateDir,
    umask: 0o077,
  };
}

/** A server in memory, for the pages of its UI alone. */
export function pagesCommand(pieces: StackPieces, ports: { readonly grpc: number; readonly ui: number }): ChildCommand {
  return {
    file: pieces.keeper,
    args: devServer(pieces, { port: ports.grpc, 'ui-port': ports.ui, 'log-level': 'error' }).concat(
      closedSettings(secretHostName()),
    ),
    cwd: '/',
  };
}

function devServer(pieces: StackPieces, flags: Readonly<Record<string, string | number>>): string[] {
  const given = Object.entries({ ip: '127.0.0.1', ...flags }).flatMap(([name, value]) => [`--${name}`, String(value)]);
  return ['tie', '--', pieces.temporalCli, 'server', 'start-dev', ...given];
}

/** The settings that close what the dev server opens and a web page could use. */
function closedSettings(httpHost: string): string[] {
  return [
    'activity.enableStandalone=false',
    'frontend.enableServerVersionCheck=false',
    `frontend.httpAllowedHosts=["${httpHost}"]`,
  ].flatMap(dynamic);
}

function dynamic(setting: string): string[] {
  return ['--dynamic-config-value', setting];
}

function pragma(setting: string): string[] {
  return ['--sqlite-pragma', setting];
}

/** The database with what SQLite keeps beside it. */
export function databaseFiles(stateDir: string): string[] {
  return ['', '-wal', '-shm', '-journal'].map((suffix) => join(stateDir, `${DATABASE}${suffix}`));
}
