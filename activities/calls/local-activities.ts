/** The workflow's own worker executes these activities, whichever host admitted the run. */
import type { LocalActivities } from '../contract.ts';

export const LOCAL_ACTIVITIES: LocalActivities = {
  recordBoot: async () => undefined,
};
