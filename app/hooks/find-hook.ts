import type { Trigger, WebhookSource } from '../../domain/delivery/trigger.ts';
import type { DeploymentStore } from '../../store/triggers.ts';

/** A webhook of the enabled version of a deployment. */
export interface FoundHook {
  readonly deployment: string;
  readonly version: number;
  readonly trigger: Trigger;
  readonly source: WebhookSource;
}

/** A paused deployment has its webhooks: its deliveries wait, or are dropped when they are decided. */
export async function findHook(
  { deployment, name }: { readonly deployment: string; readonly name: string },
  deployments: Pick<DeploymentStore, 'find' | 'findVersion'>,
): Promise<FoundHook | null> {
  const row = await deployments.find(deployment);
  const version = row === null ? null : await deployments.findVersion(deployment, row.version);
  const trigger = version?.triggers.find((each) => each.name === name);
  if (version === null || trigger?.source.kind !== 'webhook') return null;
  return { deployment, version: version.version, trigger, source: trigger.source };
}
