/** Processes of a service that tests kill: a program of the rig, bundled once, over a PostgreSQL server. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';
import { findPackageRoot } from '../../../setup/package-root.ts';
import type { AccessStore } from '../../../store/access.ts';
import { MIGRATIONS_FOLDER, openAccess } from '../../../store/open-access.ts';
import { startTestPostgres, type TestPostgres } from './postgres-server.ts';

const MIGRATIONS = join(findPackageRoot(), ...MIGRATIONS_FOLDER);

export interface KilledProcesses {
  readonly server: TestPostgres;
  /** A folder of the test, without links. `stop` removes it. */
  readonly folder: string;
  /** Makes a database with all tables. The caller closes it. */
  openDatabase(): Promise<KilledDatabase>;
  /** Starts the program with settings as JSON in its first argument. Resolves when it has printed its first line. */
  start(database: KilledDatabase, settings?: object): Promise<KilledProcess>;
  /** Kills all processes, and ends the server. */
  stop(): Promise<void>;
}

export interface KilledDatabase {
  readonly access: AccessStore;
  /** Its address for processes that this one starts. */
  readonly place: string;
}

export interface KilledProcess {
  readonly child: ChildProcess;
  /** The lines that it has printed after its first one. */
  readonly steps: () => number;
  /** SIGKILL; resolves at its end. */
  kill(): Promise<void>;
}

/** @param program  the name of a file in `test/rig`, such as `access/source-process.ts` */
export async function openKilledProcesses(program: string): Promise<KilledProcesses> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-killed-processes-')));
  const file = join(folder, 'program.mjs');
  const [server] = await Promise.all([startTestPostgres(), bundleProgram(program, file)]);
  const running = new Set<ChildProcess>();
  return {
    server,
    folder,
    async openDatabase() {
      const target = await server.createDatabase();
      const access = await openAccess({
        target,
        migrationsDir: MIGRATIONS,
        migrate: true,
        recover: () => Promise.resolve(),
        retryForMs: 0,
        warn: () => undefined,
      });
      // The address has a descriptor of this process.
      return { access, place: target.place.replaceAll('self', String(process.pid)) };
    },
    async start({ place }, settings = {}) {
      const argument = JSON.stringify({ place, migrationsDir: MIGRATIONS, ...settings });
      const child = spawn(process.execPath, [file, argument], { stdio: ['ignore', 'pipe', 'inherit'] });
      running.add(child);
      child.once('exit', () => running.delete(child));
      let steps = -1;
      child.stdout!.on('data', (bytes: Buffer) => (steps += bytes.toString().split('\n').length - 1));
      await once(child.stdout!, 'data');
      return { child, steps: () => steps, kill: async () => await killChild(child) };
    },
    async stop() {
      await Promise.all([...running].map(killChild));
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function bundleProgram(program: string, file: string): Promise<void> {
  const bundle = await rolldown({
    input: fileURLToPath(new URL(`../${program}`, import.meta.url)),
    platform: 'node',
    // The process does not migrate, and the client has no native part.
    external: ['node-pg-migrate', 'pg-native'],
    resolve: { extensionAlias: { '.js': ['.ts', '.js'] } },
  });
  await bundle.write({ file, format: 'esm', codeSplitting: false });
  await bundle.close();
}

async function killChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}
