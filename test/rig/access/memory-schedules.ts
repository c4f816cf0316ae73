/** Pauses of schedules in memory, for tests of what uses them. */
import type { DeploymentStore, ScheduleId, SchedulePause, ScheduleStore } from '../../../store/triggers.ts';

export interface MemorySchedules extends ScheduleStore {
  isPaused(id: ScheduleId): boolean;
  endDeployment(name: string): void;
}

export function createMemorySchedules(deployments: Pick<DeploymentStore, 'find'>): MemorySchedules {
  const pauses = new Map<string, SchedulePause>();
  const nameKey = ({ deployment, trigger }: ScheduleId): string => `${deployment} ${trigger}`;
  return {
    findOwner: () => Promise.resolve('00112233445566ff'),
    listPauses: () =>
      Promise.resolve([...pauses].toSorted(([one], [other]) => (one < other ? -1 : 1)).map(([, pause]) => pause)),
    async pause(pause) {
      if ((await deployments.find(pause.deployment)) === null) return false;
      const before = pauses.get(nameKey(pause));
      pauses.set(nameKey(pause), before === undefined ? pause : { ...before, note: pause.note });
      return true;
    },
    resume: (id) => Promise.resolve(pauses.delete(nameKey(id))),
    isPaused: (id) => pauses.has(nameKey(id)),
    endDeployment(name) {
      for (const [key, { deployment }] of pauses) if (deployment === name) pauses.delete(key);
    },
  };
}
