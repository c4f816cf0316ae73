/** Opens tokens and the audit log: in your own PostgreSQL server if one is named, else in the one of the stack. */
import { closeSync, constants, openSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DatabaseState } from '../../client/embedded/control.ts';
import { askStack } from '../../client/embedded/control-client.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { Environment } from '../../setup/environment.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { resolveDatabasePieces } from '../../setup/resolve.ts';
import type { AccessStore } from '../../store/access.ts';
import { MIGRATIONS_FOLDER, openAccess } from '../../store/open-access.ts';
import { readDatabaseTarget } from './database-target.ts';

/** The first start makes the data, which takes 3 seconds on an idle machine. */
const START_LIMIT_MS = 90_000;
/** After a crash it starts within a second, unless it failed several times. */
const RECOVER_LIMIT_MS = 10_000;
const LOOK_MS = 50;

export interface OpenAccessStoreOptions {
  /** If false, a database that this machine does not have yet is an error. */
  readonly install: boolean;
  readonly onProgress?: (line: string) => void;
  /** Called with what the operator of your own server should change. */
  readonly warn: (message: string) => void;
}

/**
 * The embedded server is started, and its schema is brought to this build; your own server's is only checked. The
 * stack must run: it is not started.
 * @throws SetupError, AppError, CodedError `api/access-unavailable`, `host/disk-full`
 */
export async function openAccessStore(env: Environment, options: OpenAccessStoreOptions): Promise<AccessStore> {
  const own = readDatabaseTarget(env);
  const shared = { migrationsDir: join(findPackageRoot(), ...MIGRATIONS_FOLDER), warn: options.warn };
  if (own !== null)
    return await openAccess({
      ...shared,
      target: own,
      migrate: false,
      recover: () => Promise.resolve(),
      retryForMs: 0,
    });
  await resolveDatabasePieces(env, options);
  const { socketDir } = await awaitDatabase(env.stateDir, START_LIMIT_MS);
  // An address has 107 bytes at most, and the folder may be deeper.
  const folder = openSync(socketDir, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    const store = await openAccess({
      ...shared,
      target: { kind: 'socket', place: `/proc/self/fd/${folder}` },
      migrate: true,
      recover: async () => void (await awaitDatabase(env.stateDir, RECOVER_LIMIT_MS)),
      retryForMs: RECOVER_LIMIT_MS,
    });
    return { ...store, close: () => store.close().finally(() => closeSync(folder)) };
  } catch (error) {
    closeSync(folder);
    throw error;
  }
}

/** Asks the stack to start its database, and waits until it is up. @throws CodedError with the reason if it is not */
async function awaitDatabase(stateDir: string, limitMs: number): Promise<DatabaseState> {
  const until = Date.now() + limitMs;
  for (;;) {
    const reply = await askStack(stateDir, 'database');
    if (reply.kind === 'nobody') throw createUnavailableError('the embedded stack does not run');
    const state = reply.kind === 'answer' ? reply.answer.database : null;
    if (state?.phase === 'up') return state;
    if (state?.phase === 'failed') throw createFailedError(state);
    if (Date.now() > until) throw createUnavailableError(`it is not up after ${limitMs / 1_000} s`);
    await sleep(LOOK_MS);
  }
}

function createFailedError({ reason, isDiskFull }: DatabaseState): CodedError {
  const text = reason ?? 'it does not start';
  if (isDiskFull) return new CodedError('host/disk-full', `the database of tokens does not run: ${text}`);
  return createUnavailableError(text);
}

function createUnavailableError(reason: string): CodedError {
  return new CodedError('api/access-unavailable', `the database of tokens and of the audit log: ${reason}`);
}
