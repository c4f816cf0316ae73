/** Finds followed deployments that no service has, for a command that only reads: it starts neither stack nor database. */
import { openApiSocket } from '../../client/embedded/api-socket.ts';
import { hasTokenDatabase } from '../../client/embedded/token-database.ts';
import type { ServiceSettings } from '../../domain/access/service-settings.ts';
import { listUpstreams } from '../../domain/delivery/links.ts';
import type { Trigger } from '../../domain/delivery/trigger.ts';
import { ServiceClient } from '../../http/service-client.ts';
import type { Environment } from '../../setup/environment.ts';

/** The service may have to start its database. */
const ANSWER_MS = 10_000;

/**
 * Returns the names in their order.
 * @returns null if a trigger follows a deployment, and the service cannot be asked now
 */
export async function findAbsentUpstreams(
  triggers: readonly Pick<Trigger, 'source'>[],
  env: Environment,
): Promise<readonly string[] | null> {
  const names = listUpstreams(triggers);
  if (names.length === 0) return [];
  if (env.service !== null) return await askEach(names, env.service);
  if (env.temporalConfigured) return null;
  // The first deployment makes the database.
  if (env.database === null && !hasTokenDatabase(env.stateDir)) return names;
  const socket = openApiSocket(env.stateDir);
  if (socket === null) return null;
  const place = { kind: 'unix', path: socket.path } as const;
  try {
    return await askEach(names, { name: 'the HTTP API of this machine', place, token: null, ca: null });
  } finally {
    socket.close();
  }
}

async function askEach(names: readonly string[], settings: ServiceSettings): Promise<readonly string[] | null> {
  const client = new ServiceClient(settings);
  const absent: string[] = [];
  try {
    for (const name of names) {
      const code = await client.send({ path: ['deployments', name], answerMs: ANSWER_MS }).then(
        (answer) => void answer.resume(),
        (error: { readonly code?: string }) => error.code ?? 'unknown',
      );
      if (code === 'api/no-deployment') absent.push(name);
      // A token may not see each deployment.
      else if (code !== undefined && code !== 'api/not-allowed') return null;
    }
    return absent;
  } finally {
    client.close();
  }
}
