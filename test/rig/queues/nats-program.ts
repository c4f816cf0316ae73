/** The server of NATS that tests run, built once on each machine by Go. */
import { join } from 'node:path';
import { type CacheFolder, ensureCacheFolder, findCacheFolder, hashInputs } from '../../../setup/cache/cache.ts';
import { type Environment, readEnvironment } from '../../../setup/environment.ts';
import { findOnPath } from '../../../setup/pieces/find-program.ts';
import { cutToLastLines, runProgram } from '../../../setup/pieces/run-program.ts';

/** The version of the module `github.com/nats-io/nats-server/v2`; Go checks its hash. */
const VERSION = 'v2.14.10';
const MODULE = 'github.com/nats-io/nats-server/v2';
/** A machine with other work needs minutes for it, so a test builds the server in a hook with this limit, not in its own time. */
export const NATS_BUILD_LIMIT_MS = 600_000;

/** Whether a machine without Go fails the tests instead of leaving them out. */
const IS_REQUIRED = (process.env['VOIDBOX_TEST_NATS'] ?? '') !== '';

const env = readEnvironment();
const folder: CacheFolder = {
  cacheDir: env.cacheDir,
  piece: 'nats-server',
  hash: hashInputs([VERSION, process.arch]),
  main: 'nats-server',
};

/** The line of a set-up without the server; null: tests have it, or build it. */
export const NO_NATS = describeLack(env);

function describeLack(environment: Environment): string | null {
  const isThere = findCacheFolder(folder) !== null || findOnPath(environment, ['go']).length > 0;
  if (isThere || IS_REQUIRED) return null;
  return `there is no Go to build nats-server ${VERSION}, so queues are tested with a fake only; install Go, and VOIDBOX_TEST_NATS=1 makes that a failure`;
}

/**
 * Builds the server if it is not in the cache, which takes two minutes of a CPU.
 * @returns the path of the program
 * @throws Error that names the problem
 */
export async function ensureNatsServer(onProgress: (line: string) => void): Promise<string> {
  const made = await ensureCacheFolder(
    folder,
    async (into) => {
      const go = findOnPath(env, ['go'])[0];
      if (go === undefined)
        throw new Error(`VOIDBOX_TEST_NATS needs nats-server ${VERSION}, and there is no Go to build it`);
      onProgress(`building nats-server ${VERSION} with Go, once on this machine`);
      const args = ['install', '-trimpath', '-ldflags=-s -w', `${MODULE}@${VERSION}`];
      const variables = { GOBIN: into, CGO_ENABLED: '0', GOFLAGS: '-mod=mod' };
      const built = await runProgram(env, go, args, { variables, timeoutMs: NATS_BUILD_LIMIT_MS, cwd: into });
      if (built.exitCode !== 0) throw new Error(`Go cannot build nats-server ${VERSION}: ${cutToLastLines(built, 5)}`);
    },
    () => onProgress('waiting for another build of nats-server'),
  );
  return join(made, 'nats-server');
}
