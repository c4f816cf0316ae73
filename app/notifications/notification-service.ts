/** The part of a service that tells receivers about runs of deployments. */
import { sendGuarded } from '../../http/guarded-post.ts';
import type { TriggerStore } from '../../store/triggers.ts';
import type { ReadSecretValues } from '../deliveries/read-deliveries.ts';
import type { EnabledList } from '../deployments/enabled-versions.ts';
import type { Machine } from '../machine.ts';
import { followRuns } from './follow-runs.ts';
import { isHostOpened } from './opened-hosts.ts';
import { type CreateApprovalLink, startSender } from './send-due.ts';
import { watchSchedules, type WatchSchedulesOptions } from './watch-schedules.ts';

export interface NotificationServiceOptions {
  readonly openTriggers: () => Promise<TriggerStore | null>;
  readonly machine: Machine;
  readonly readSecretValues: ReadSecretValues;
  readonly createApprovalLink: CreateApprovalLink;
  /** Opens the server of schedules. */
  readonly openServer: WatchSchedulesOptions['openServer'];
  /** Returns the hosts that `--allow-notify` opens. */
  readonly readOpenedHosts: () => readonly string[];
  readonly listEnabled: EnabledList;
  readonly onIdle: (triggers: TriggerStore) => Promise<void>;
  readonly log: (line: string) => void;
}

export interface NotificationService {
  /** A notification may be due. */
  wake(): void;
  sweep(triggers: TriggerStore): Promise<void>;
  close(): Promise<void>;
}

export function startNotifications(options: NotificationServiceOptions): NotificationService {
  const { readOpenedHosts, machine } = options;
  const readMs = (): number => machine.now().getTime();
  const sender = startSender({
    ...options,
    nowMs: readMs,
    post: async (post) => {
      const hosts = readOpenedHosts();
      return await sendGuarded(post, { isOpened: (host, port) => isHostOpened(hosts, host, port) });
    },
  });
  const onAdded = (): void => sender.wake();
  const follower = followRuns({ ...options, onAdded });
  const schedules = watchSchedules({ ...options, nowMs: readMs, onAdded });
  return {
    wake: () => sender.wake(),
    sweep: async ({ notifications }) => await notifications.sweep(readMs()),
    async close() {
      await Promise.all([follower.close(), schedules.close(), sender.close()]);
    },
  };
}
