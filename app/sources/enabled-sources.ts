/** The triggers of enabled versions whose source the service reads itself. */
import type { FolderSource, OutboxSource, TriggerSource } from '../../domain/delivery/trigger.ts';
import type { SourceId } from '../../store/ports/sources.ts';
import type { EnabledVersion } from '../deployments/enabled-versions.ts';

export type ReadSource = FolderSource | OutboxSource;

export interface EnabledSource<S extends ReadSource = ReadSource> {
  readonly id: SourceId;
  readonly version: number;
  readonly isOrdered: boolean;
  readonly source: S;
  /** When the deployment was changed last: its trigger reads at least since then. */
  readonly changedAtMs: number;
}

/** A paused deployment has its sources: its deliveries wait, or are dropped when they are decided. */
export function listEnabledSources(versions: readonly EnabledVersion[]): readonly EnabledSource[] {
  return versions.flatMap(({ name, version, changedAtMs, triggers }) =>
    triggers.flatMap(({ name: trigger, source, order }): readonly EnabledSource[] =>
      isRead(source)
        ? [{ id: { deployment: name, trigger }, version, isOrdered: order !== null, source, changedAtMs }]
        : [],
    ),
  );
}

function isRead(source: TriggerSource): source is ReadSource {
  return source.kind === 'folder' || source.kind === 'outbox';
}
