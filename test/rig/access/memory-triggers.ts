/** Deployments and what belongs to them in memory, for tests of what uses them. */
import type { TriggerStore } from '../../../store/triggers.ts';
import { createMemoryApprovalLinks } from './memory-approval-links.ts';
import { createMemoryDeliveries } from './memory-deliveries.ts';
import { createMemoryDeployments } from './memory-deployments.ts';
import { createMemorySchedules } from './memory-schedules.ts';
import { createMemoryNotifications } from './memory-notifications.ts';
import { createMemorySecrets } from './memory-secrets.ts';
import { createMemorySources } from './memory-sources.ts';

export function createMemoryTriggers(): TriggerStore {
  const kept = createMemoryDeployments();
  const schedules = createMemorySchedules(kept);
  const deployments = {
    ...kept,
    async delete(name: string, nowMs: number) {
      schedules.endDeployment(name);
      return await kept.delete(name, nowMs);
    },
  };
  const notifications = createMemoryNotifications(
    async (name, version) => ((await kept.findVersion(name, version))?.notify.receivers.length ?? 0) > 0,
  );
  const deliveries = createMemoryDeliveries(
    {
      async readPause(name) {
        const found = await deployments.find(name);
        return { isDeleted: found === null, pause: found?.isPaused === true ? found.onPause : null };
      },
      async listFollowers(upstream) {
        const links = (await deployments.listLinks()).filter((link) => link.upstream === upstream);
        return await Promise.all(
          links.map(async ({ deployment }) => {
            const { version } = (await deployments.find(deployment))!;
            return (await deployments.findVersion(deployment, version))!;
          }),
        );
      },
      listLinks: () => deployments.listLinks(),
    },
    schedules.isPaused,
    notifications.watch,
  );
  const sources = createMemorySources(deliveries);
  return {
    deployments,
    schedules,
    deliveries,
    sources,
    secrets: createMemorySecrets(),
    notifications: notifications.store,
    approvalLinks: createMemoryApprovalLinks(),
  };
}
