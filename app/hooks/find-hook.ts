import type { Trigger, WebhookSource } from '../../domain/delivery/trigger.ts';
import type { DeploymentStore } from '../../store/triggers.ts';
import { shareReads } from './share-reads.ts';

/** A webhook of the enabled version of a deployment. */
export interface FoundHook {
  readonly deployment: string;
  readonly version: number;
  readonly trigger: Trigger;
  readonly source: WebhookSource;
}

/** The versions whose webhooks are remembered; another one then forgets the one that was used least recently. */
const MOST_VERSIONS = 200;

export type FindHook = (path: { readonly deployment: string; readonly name: string }) => Promise<FoundHook | null>;

/**
 * A version never changes, so its webhooks are read once. A paused deployment has its webhooks: its deliveries wait, or
 * are dropped when they are decided.
 */
export function createHookFinder(
  open: () => Promise<Pick<DeploymentStore, 'find' | 'findVersion'>>,
  mostVersions = MOST_VERSIONS,
): FindHook {
  const known = new Map<string, readonly FoundHook[]>();
  const findDeployment = shareReads(async (deployment) => await (await open()).find(deployment));
  return async ({ deployment, name }) => {
    const row = await findDeployment(deployment);
    if (row === null) return null;
    const key = `${row.version} ${deployment}`;
    const hooks = known.get(key) ?? (await readHooks(deployment, row.version, await open()));
    // The order of a map is the order of insertion.
    known.delete(key);
    known.set(key, hooks);
    if (known.size > mostVersions) known.delete(known.keys().next().value!);
    return hooks.find(({ trigger }) => trigger.name === name) ?? null;
  };
}

async function readHooks(
  deployment: string,
  version: number,
  deployments: Pick<DeploymentStore, 'findVersion'>,
): Promise<readonly FoundHook[]> {
  const { triggers = [] } = (await deployments.findVersion(deployment, version)) ?? {};
  return triggers.flatMap((trigger) =>
    trigger.source.kind === 'webhook' ? [{ deployment, version, trigger, source: trigger.source }] : [],
  );
}
