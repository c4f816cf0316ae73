/** The own worker of a workflow executes these, whichever host admitted the run. */
import type { LocalActivities } from '../contract.ts';

export const LOCAL_ACTIVITIES: LocalActivities = {
  recordBoot: async () => undefined,
};
