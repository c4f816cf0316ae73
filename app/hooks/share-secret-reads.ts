import type { ReadHookSecrets } from './receive-hook.ts';
import { shareReads } from './share-reads.ts';

/** Requests of the same webhook that arrive at the same time share a read of its secret. */
export function shareSecretReads(read: ReadHookSecrets): ReadHookSecrets {
  const shared = shareReads(async (key) => {
    const [deployment, name] = JSON.parse(key) as [string, string];
    return await read(deployment, name);
  });
  return async (deployment, name) => await shared(JSON.stringify([deployment, name]));
}
