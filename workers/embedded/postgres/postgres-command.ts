/**
 * The command lines of `initdb` and `postgres`. An ordinary user runs them directly. PostgreSQL refuses to run as root,
 * so root runs them in a jail of bubblewrap, in which it is uid 1000.
 */
import { join, relative } from 'node:path';
import type { DatabasePieces } from '../../../setup/resolve.ts';
import type { ChildCommand } from '../restarting-process.ts';
import type { PostgresPaths } from './postgres-files.ts';

/** The user of the database. It needs no password, because only the owner of the state folder can reach the socket. */
const POSTGRES_USER = 'voidbox';
const MOST_CONNECTIONS = 30;
/** The folders of the host that programs need. */
const PROGRAM_FOLDERS = ['/usr', '/bin', '/lib', '/lib64'];

const INITDB_OPTIONS = [
  '--username',
  POSTGRES_USER,
  '--auth=trust',
  '--encoding=UTF8',
  '--locale=C',
  // The log of a small database would take 16 MiB for each segment.
  '--wal-segsize=1',
  '--no-instructions',
];

/** For a few rows a second; most of them save memory and processes. */
const SETTINGS: Readonly<Record<string, string | number>> = {
  listen_addresses: '',
  unix_socket_permissions: '0600',
  max_connections: MOST_CONNECTIONS,
  shared_buffers: '16MB',
  huge_pages: 'off',
  io_method: 'sync',
  wal_level: 'minimal',
  max_wal_senders: 0,
  // After a crash, one call instead of one for each file.
  recovery_init_sync_method: 'syncfs',
  min_wal_size: '8MB',
  max_wal_size: '32MB',
  max_worker_processes: 0,
  max_parallel_workers: 0,
  max_logical_replication_workers: 0,
  autovacuum_max_workers: 1,
  autovacuum_worker_slots: 1,
  // The supervisor starts it again, with pauses.
  restart_after_crash: 'off',
  logging_collector: 'off',
  log_destination: 'stderr',
  log_checkpoints: 'off',
  // No statement gets into the log.
  log_min_error_statement: 'panic',
  timezone: 'UTC',
  log_timezone: 'UTC',
};

export interface PostgresPrograms {
  readonly pieces: DatabasePieces;
  /** The program that ties a child to its parent. */
  readonly keeper: string;
  readonly paths: PostgresPaths;
}

export function buildInitdbCommand(programs: PostgresPrograms): ChildCommand {
  const { dir, unfinished } = programs.paths;
  return buildCommand(programs, [dir], 'initdb', ['--pgdata', unfinished, ...INITDB_OPTIONS]);
}

export function buildPostgresCommand(programs: PostgresPrograms): ChildCommand {
  const { data, socketDir } = programs.paths;
  // The server changes to its data, and an address has 107 bytes at most. So the path is relative to the data.
  const settings = { ...SETTINGS, unix_socket_directories: relative(data, socketDir) };
  const options = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  return buildCommand(programs, [data, socketDir], 'postgres', ['-D', data, ...options]);
}

/** The environment of both: no variable of the stack, because `PG…` variables would change what they do. */
export function buildPostgresEnv({ postgres }: DatabasePieces): Readonly<Record<string, string>> {
  // A program finds the libraries beside it by `/proc`, which the jail does not have.
  return { PATH: '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC', LD_LIBRARY_PATH: join(postgres, 'lib') };
}

function buildCommand(
  { pieces: { postgres, bwrap }, keeper, paths }: PostgresPrograms,
  writable: readonly string[],
  name: string,
  args: readonly string[],
): ChildCommand {
  const jail = bwrap === null ? [] : [bwrap, ...listJailOptions(postgres, paths.passwd, writable), '--'];
  return {
    file: keeper,
    args: ['tie', '--', ...jail, join(postgres, 'bin', name), ...args],
    cwd: '/',
    umask: 0o077,
  };
}

/** The jail has no network, and of the files of root only the programs and the folders that it may write. */
function listJailOptions(postgres: string, passwd: string, writable: readonly string[]): readonly string[] {
  const user = ['--unshare-user', '--uid', '1000', '--gid', '1000'];
  const shown = PROGRAM_FOLDERS.flatMap((folder) => ['--ro-bind-try', folder, folder]);
  return [
    ...user,
    '--unshare-net',
    '--unshare-uts',
    '--die-with-parent',
    '--new-session',
    ...shown,
    '--ro-bind',
    passwd,
    '/etc/passwd',
    '--dev',
    '/dev',
    '--ro-bind',
    postgres,
    postgres,
    ...writable.flatMap((folder) => ['--bind', folder, folder]),
    '--chdir',
    '/',
  ];
}
