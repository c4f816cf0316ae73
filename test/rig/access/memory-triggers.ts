/** Deployments and what belongs to them in memory, for tests of what uses them. */
import type { TriggerStore } from '../../../store/triggers.ts';
import { createMemoryDeliveries } from './memory-deliveries.ts';
import { createMemoryDeployments } from './memory-deployments.ts';
import { createMemorySecrets } from './memory-secrets.ts';

export function createMemoryTriggers(): TriggerStore {
  const deployments = createMemoryDeployments();
  const deliveries = createMemoryDeliveries(async (name) => {
    const found = await deployments.find(name);
    return { isDeleted: found === null, pause: found?.isPaused === true ? found.onPause : null };
  });
  return { deployments, deliveries, secrets: createMemorySecrets() };
}
