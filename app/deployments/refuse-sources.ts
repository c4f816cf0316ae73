/** Refuses triggers that would read folders, databases or queues which the operator of the service has not allowed. */
import { realpathSync, statSync } from 'node:fs';
import type { AllowedSources } from '../../client/embedded/allowed-sources.ts';
import type { Trigger } from '../../domain/delivery/trigger.ts';
import { contains } from '../../domain/language/text/paths.ts';
import { quoteArgument } from '../../domain/security/typed-argument.ts';
import { findRefusedBroker } from '../../domain/delivery/queue-address.ts';
import type { QueueSource } from '../../domain/delivery/queue-source.ts';
import { AppError } from '../app-error.ts';
import { isAllowedHost, parseOutboxAddress } from '../sources/outbox/outbox-address.ts';

/** @throws AppError `deploy/source-not-allowed` */
export function refuseSources(triggers: readonly Trigger[], readAllowed: () => AllowedSources): void {
  for (const { name, source } of triggers) {
    if (source.kind === 'folder') refuseFolder(name, source.path, readAllowed());
    if (source.kind === 'queue') refuseQueue(name, source, readAllowed());
    if (source.kind === 'outbox' && readAllowed().outbox.length === 0)
      throw createRefusal(
        `the trigger ${name} reads an outbox, and the operator of the service has allowed no database for that`,
        'The operator allows one on the machine of the service: voidbox up --allow-outbox HOST:PORT',
      );
  }
}

/** A deployer is not the operator: a spec must not let the service connect to any host. */
function refuseQueue(trigger: string, { nats }: QueueSource, { queue }: AllowedSources): void {
  const refused = findRefusedBroker(nats.servers, queue);
  if (refused !== null)
    throw createRefusal(
      `the trigger ${trigger} reads a queue of ${refused}, which the operator of the service has not allowed`,
      `The operator allows it on the machine of the service: voidbox up --allow-queue ${refused}`,
    );
}

function refuseFolder(trigger: string, path: string, { watch }: AllowedSources): void {
  const real = findWatched(path, watch);
  if (real === null)
    throw createRefusal(
      `the trigger ${trigger} watches ${path}, which is in no folder that the operator of the service allows`,
      `The operator allows it on the machine of the service: voidbox up --allow-watch ${quoteArgument(path)}`,
    );
  if (statSync(real, { throwIfNoEntry: false })?.isDirectory() === true) return;
  throw createRefusal(
    `the trigger ${trigger} watches ${path}, which is not a folder`,
    'Make the folder, or correct `path`.',
  );
}

/**
 * Returns the folder of a trigger without links. The result does not tell whether a path outside of the allowed
 * folders exists.
 * @returns null if it is in none of the allowed folders
 */
export function findWatched(path: string, watch: readonly string[]): string | null {
  const isAllowed = (place: string): boolean => watch.some((folder) => contains(folder, place));
  let real: string;
  try {
    real = realpathSync(path);
  } catch {
    // It does not exist yet, or its user cannot read it: the scan reports that.
    return isAllowed(path) ? path : null;
  }
  return isAllowed(real) ? real : null;
}

export interface OutboxTools {
  /** Reads what the operator of the service allows triggers to read. @throws SetupError */
  readonly readAllowedSources: () => AllowedSources;
  /** Returns the values of secrets of the deployment, by name. They exist. */
  readonly readSecrets: (deployment: string, names: readonly string[]) => Promise<Readonly<Record<string, string>>>;
}

/**
 * Refuses outboxes whose secret names no database, or one that the operator has not allowed. Another value of the secret
 * is checked when the service connects.
 * @throws AppError `deploy/source-not-allowed`, `source/bad-secret`, without a part of the address
 */
export async function refuseOutboxHosts(
  deployment: string,
  triggers: readonly Trigger[],
  { readAllowedSources, readSecrets }: OutboxTools,
): Promise<void> {
  for (const { name, source } of triggers) {
    if (source.kind !== 'outbox') continue;
    const { secret } = source;
    const { [secret]: value = '' } = await readSecrets(deployment, [secret]);
    const address = parseOutboxAddress(value);
    if (typeof address === 'string')
      throw new AppError(
        'usage',
        'source/bad-secret',
        `the trigger ${name} reads an outbox, and the secret ${secret} is no address of a database: ${address}`,
        `Set it to postgres://USER:PASSWORD@HOST:PORT/NAME: voidbox secret set ${secret} --deployment ${deployment}`,
      );
    if (!isAllowedHost(address, readAllowedSources().outbox))
      throw createRefusal(
        `the trigger ${name} reads an outbox, and the operator of the service has not allowed the server that the secret ${secret} names`,
        'The operator allows it on the machine of the service: voidbox up --allow-outbox HOST:PORT',
      );
  }
}

function createRefusal(message: string, remedy: string): AppError {
  return new AppError('usage', 'deploy/source-not-allowed', message, remedy);
}
