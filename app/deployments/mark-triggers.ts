/** Tells the supervisor of the embedded stack whether deployments need the service. */
import { keepEnabledTriggers, MOST_NAMED, readEnabledTriggers } from '../../client/embedded/trigger-mark.ts';
import type { TriggerStore } from '../../store/triggers.ts';

const PAGE = 200;

/** Writes the file only if it changes. */
export async function markTriggers(stateDir: string, triggers: TriggerStore): Promise<void> {
  const names: string[] = [];
  let count = 0;
  for (let after: string | undefined; ;) {
    const rows = await triggers.deployments.list(PAGE, after);
    for (const { name, version } of rows.filter(({ isPaused }) => !isPaused)) {
      const enabled = await triggers.deployments.findVersion(name, version);
      if (enabled === null || enabled.triggers.length === 0) continue;
      count += 1;
      if (names.length < MOST_NAMED) names.push(name);
    }
    if (rows.length < PAGE) break;
    after = rows.at(-1)!.name;
  }
  const hasOpen = (await triggers.deliveries.hasOpen()) || (await triggers.notifications.hasOpen());
  const marked = { count, names, hasOpen };
  if (JSON.stringify(readEnabledTriggers(stateDir)) !== JSON.stringify(marked)) keepEnabledTriggers(stateDir, marked);
}
