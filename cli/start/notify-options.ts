/** The options of `up` and `serve` about hosts that notifications may reach. */
import type { Command } from 'commander';
import { parseOpenedHosts } from '../../app/notifications/opened-hosts.ts';
import { keepNotifyHosts } from '../../client/embedded/notify-hosts.ts';

export interface NotifyOptions {
  /** False: the list becomes empty. */
  readonly allowNotify?: readonly string[] | false;
}

export function addNotifyOptions(command: Command): void {
  command
    .option(
      '--allow-notify <host...>',
      'hosts that notifications may reach without TLS, or in a private network: HOST or HOST:PORT; they replace the earlier list, also for later starts',
    )
    .option('--no-allow-notify', 'notifications reach only hosts of the internet, with TLS');
}

/**
 * @returns null: no option names hosts
 * @throws AppError of usage
 */
export function parseNotifyOptions({ allowNotify }: NotifyOptions): readonly string[] | null {
  if (allowNotify === undefined) return null;
  return allowNotify === false ? [] : parseOpenedHosts(allowNotify);
}

/** @param hosts  null: the earlier list stays */
export function keepNotifyOptions(stateDir: string, hosts: readonly string[] | null): void {
  if (hosts !== null) keepNotifyHosts(stateDir, hosts);
}
