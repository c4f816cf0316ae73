/** Finds followed deployments that no service has. */
import { listUpstreams } from '../../domain/delivery/links.ts';
import type { Trigger } from '../../domain/delivery/trigger.ts';
import type { ServiceClient } from '../../http/service-client.ts';
import type { Environment } from '../../setup/environment.ts';
import { ASK_MS, askService } from './ask-service.ts';

/**
 * Returns the names in their order.
 * @returns null if a trigger follows a deployment, and the service cannot be asked now
 */
export async function findAbsentUpstreams(
  triggers: readonly Pick<Trigger, 'source'>[],
  env: Environment,
): Promise<readonly string[] | null> {
  const names = listUpstreams(triggers);
  return names.length === 0 ? [] : await askService(env, names, async (client) => await askEach(names, client));
}

async function askEach(names: readonly string[], client: ServiceClient): Promise<readonly string[] | null> {
  const absent: string[] = [];
  for (const name of names) {
    const code = await client.send({ path: ['deployments', name], answerMs: ASK_MS }).then(
      (answer) => void answer.resume(),
      (error: { readonly code?: string }) => error.code ?? 'unknown',
    );
    if (code === 'api/no-deployment') absent.push(name);
    // A token may not see each deployment.
    else if (code !== undefined && code !== 'api/not-allowed') return null;
  }
  return absent;
}
