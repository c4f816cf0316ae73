/** Requests to the HTTP API for commands about its rows: of this machine, or the one that `VOIDBOX_SERVER` or a login names. */
import type { ServiceSettings } from '../../domain/access/service-settings.ts';
import { ServiceClient } from '../../http/service-client.ts';
import type { Environment } from '../../setup/environment.ts';
import { resolveDatabasePieces } from '../../setup/resolve.ts';
import { openApiSocket } from '../../client/embedded/api-socket.ts';
import { hasTokenDatabase } from '../../client/embedded/token-database.ts';
import { ensureStack } from '../../client/embedded/stack.ts';
import { createEnvironmentError, createUsageError } from '../app-error.ts';
import type { Machine } from '../machine.ts';

/** The first token or secret needs PostgreSQL, which is fetched and started then. */
const ANSWER_MS = 5 * 60_000;

/** @throws AppError, ServiceError */
export async function askTokenService(
  { env }: Machine,
  { onProgress, method, makesDatabase = false, ...request }: TokenServiceRequest,
): Promise<unknown> {
  return await withService({ env }, { onProgress, makesDatabase }, async (client) => {
    const asked = { ...request, answerMs: ANSWER_MS };
    return await (method === 'GET' ? client.readJson(asked) : client.change({ ...asked, method }));
  });
}

/**
 * Calls `use` with a client of the service.
 * @throws AppError, ServiceError
 */
export async function withService<T>(
  { env }: Pick<Machine, 'env'>,
  { onProgress, makesDatabase }: { readonly onProgress: (line: string) => void; readonly makesDatabase: boolean },
  use: (client: ServiceClient) => Promise<T>,
): Promise<T> {
  const place =
    env.service === null
      ? await openOwnApi(env, { onProgress, makesDatabase })
      : { settings: env.service, close: () => undefined };
  const client = new ServiceClient(place.settings);
  try {
    return await use(client);
  } finally {
    client.close();
    place.close();
  }
}

/**
 * Returns the service of this machine, whose client is the owner. Its connection stays open until the process ends.
 * @throws AppError
 */
export async function openOwnService(env: Environment, onProgress: (line: string) => void): Promise<ServiceSettings> {
  return (await openOwnApi(env, { onProgress, makesDatabase: false })).settings;
}

/** Starts the embedded stack if it does not run, and opens its Unix socket, whose client is the owner. */
async function openOwnApi(
  env: Environment,
  { onProgress, makesDatabase }: { readonly onProgress: (line: string) => void; readonly makesDatabase: boolean },
): Promise<{ readonly settings: ServiceSettings; close(): void }> {
  if (env.temporalConfigured)
    throw createUsageError(
      'tokens, secrets and deployments belong to the embedded stack, but TEMPORAL_* names your own Temporal server',
      `Unset ${env.temporalVariables.join(', ')}. For those of \`voidbox serve\`, also set VOIDBOX_SERVER=unix: with the path of its socket.`,
    );
  // The API gets the piece too, but without a line of progress.
  if (env.database === null && (makesDatabase || hasTokenDatabase(env.stateDir)))
    await resolveDatabasePieces(env, { install: true, onProgress });
  await ensureStack(env, { onProgress });
  const socket = openApiSocket(env.stateDir);
  if (socket === null)
    throw createEnvironmentError(
      'cli/no-server',
      'the embedded stack has no HTTP API',
      'Restart the stack with this version: voidbox down && voidbox up',
    );
  const place = { kind: 'unix', path: socket.path } as const;
  return {
    settings: { name: 'the HTTP API of this machine', place, token: null, ca: null },
    close: () => socket.close(),
  };
}

export interface TokenServiceRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: readonly string[];
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  readonly body?: { readonly json: unknown };
  /** The first token or secret makes the database; other requests find it, or get an empty answer. */
  readonly makesDatabase?: boolean;
  readonly onProgress: (line: string) => void;
}
