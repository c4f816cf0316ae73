/** Asks the service about deployments, for a command that only reads: it starts neither stack nor database. */
import { openApiSocket } from '../../client/embedded/api-socket.ts';
import { hasTokenDatabase } from '../../client/embedded/token-database.ts';
import type { ServiceSettings } from '../../domain/access/service-settings.ts';
import { ServiceClient } from '../../http/service-client.ts';
import type { Environment } from '../../setup/environment.ts';

/** The service may have to start its database. */
export const ASK_MS = 10_000;

/**
 * @param without  the answer of a machine without a database, which has no deployment and no secret
 * @returns null if the service cannot be asked now, or `ask` returns null
 */
export async function askService<T>(
  env: Environment,
  without: T,
  ask: (client: ServiceClient) => Promise<T | null>,
): Promise<T | null> {
  if (env.service !== null) return await askWith(env.service, ask);
  if (env.temporalConfigured) return null;
  // The first deployment or secret makes the database.
  if (env.database === null && !hasTokenDatabase(env.stateDir)) return without;
  const socket = openApiSocket(env.stateDir);
  if (socket === null) return null;
  const place = { kind: 'unix', path: socket.path } as const;
  try {
    return await askWith({ name: 'the HTTP API of this machine', place, token: null, ca: null }, ask);
  } finally {
    socket.close();
  }
}

async function askWith<T>(
  settings: ServiceSettings,
  ask: (client: ServiceClient) => Promise<T | null>,
): Promise<T | null> {
  const client = new ServiceClient(settings);
  try {
    return await ask(client);
  } finally {
    client.close();
  }
}
