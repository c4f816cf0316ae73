/** What workflows of runs have done by their own worker, whichever host admitted the run. */
import type { LocalActivities } from './contract.ts';

export const LOCAL_ACTIVITIES: LocalActivities = {
  recordBoot: async () => undefined,
};
