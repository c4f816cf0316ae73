/** Tells the supervisor of the embedded stack whether deployments need the service. */
import { keepEnabledTriggers, MOST_NAMED, readEnabledTriggers } from '../../client/embedded/trigger-mark.ts';
import type { TriggerStore } from '../../store/triggers.ts';
import type { EnabledList } from './enabled-versions.ts';

/** Writes the file only if it changes. */
export async function markTriggers(stateDir: string, triggers: TriggerStore, listEnabled: EnabledList): Promise<void> {
  const versions = await listEnabled(triggers.deployments);
  const needing = versions.filter((each) => !each.isPaused && each.triggers.length > 0);
  const names = needing.slice(0, MOST_NAMED).map(({ name }) => name);
  const hasOpen = (await triggers.deliveries.hasOpen()) || (await triggers.notifications.hasOpen());
  const marked = { count: needing.length, names, hasOpen };
  if (JSON.stringify(readEnabledTriggers(stateDir)) !== JSON.stringify(marked)) keepEnabledTriggers(stateDir, marked);
}
