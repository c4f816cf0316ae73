/** The triggers of enabled versions whose source the service reads itself. */
import type { FolderSource, OutboxSource, Trigger, TriggerSource } from '../../domain/delivery/trigger.ts';
import type { SourceId } from '../../store/ports/sources.ts';
import type { DeploymentStore } from '../../store/triggers.ts';

export type ReadSource = FolderSource | OutboxSource;

export interface EnabledSource<S extends ReadSource = ReadSource> {
  readonly id: SourceId;
  readonly version: number;
  readonly isOrdered: boolean;
  readonly source: S;
  /** When the deployment was changed last: its trigger reads at least since then. */
  readonly changedAtMs: number;
}

const PAGE = 200;

export type ListEnabledSources = () => Promise<readonly EnabledSource[]>;

/**
 * Lists them by deployment. A paused deployment has its sources: its deliveries wait, or are dropped when they are
 * decided. A version never changes, so its triggers are read once.
 */
export function createSourceLister(
  open: () => Promise<Pick<DeploymentStore, 'list' | 'findVersion'>>,
): ListEnabledSources {
  let known = new Map<string, readonly Trigger[]>();
  return async () => {
    const deployments = await open();
    const found: EnabledSource[] = [];
    const kept = new Map<string, readonly Trigger[]>();
    for (let after: string | undefined; ;) {
      const rows = await deployments.list(PAGE, after);
      for (const { name, version, changedAtMs } of rows) {
        const key = `${version} ${name}`;
        const triggers = known.get(key) ?? (await readTriggers(name, version, deployments));
        kept.set(key, triggers);
        for (const { name: trigger, source, order } of triggers)
          if (isRead(source))
            found.push({ id: { deployment: name, trigger }, version, isOrdered: order !== null, source, changedAtMs });
      }
      if (rows.length < PAGE) break;
      after = rows.at(-1)!.name;
    }
    known = kept;
    return found;
  };
}

/** Keeps only the triggers that are needed, because a service may have many deployments. */
async function readTriggers(
  name: string,
  version: number,
  deployments: Pick<DeploymentStore, 'findVersion'>,
): Promise<readonly Trigger[]> {
  const found = await deployments.findVersion(name, version);
  return (found?.triggers ?? []).filter(({ source }) => isRead(source));
}

function isRead(source: TriggerSource): source is ReadSource {
  return source.kind === 'folder' || source.kind === 'outbox';
}
