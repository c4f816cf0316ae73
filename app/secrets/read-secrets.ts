/** The values of secrets for a run and for a webhook. Names come from a version of a deployment, never from a payload. */
import { createMapping } from '../../domain/units/mapping.ts';
import type { SealedSecret } from '../../store/triggers.ts';
import { type SecretPlace, createLostKeyError } from './change-secrets.ts';
import { openValue } from './sealed-value.ts';
import { readSecretKeys, type SecretKeys } from './secret-keys.ts';

export interface ReadSecrets {
  readonly values: Readonly<Record<string, string>>;
  /** Names without a secret for this deployment or for all, in the given order. */
  readonly missing: readonly string[];
}

/**
 * Reads the values that a run of the deployment gets. A secret of the deployment takes precedence over one for all.
 * @param names  the names that the version of the run names
 * @throws AppError `api/secrets-key`, `api/secret-damaged`; CodedError `api/access-unavailable`, `host/disk-full`
 */
export async function readSecrets(
  deployment: string,
  names: readonly string[],
  place: SecretPlace,
): Promise<ReadSecrets> {
  const found = await selectSecrets(deployment, names, place);
  const keys = await requireKeys(found, place);
  return {
    values: createMapping([...found].map(([name, secret]) => [name, openValue(secret.value, secret, keys)])),
    missing: names.filter((name) => !found.has(name)),
  };
}

/** Which of the names have no secret for the deployment or for all. It needs no key. */
export async function findMissingSecrets(
  deployment: string,
  names: readonly string[],
  place: Pick<SecretPlace, 'secrets'>,
): Promise<readonly string[]> {
  const found = await selectSecrets(deployment, names, place);
  return names.filter((name) => !found.has(name));
}

/**
 * Returns the values that prove the sender of a webhook: the current one, then the one before the last rotation until
 * its end. Empty: the deployment has no such secret.
 * @param name  the secret that the trigger names
 * @throws like `readSecrets`
 */
export async function readWebhookSecrets(
  deployment: string,
  name: string,
  place: SecretPlace,
): Promise<readonly string[]> {
  const found = await selectSecrets(deployment, [name], place);
  const secret = found.get(name);
  if (secret === undefined) return [];
  const keys = await requireKeys(found, place);
  const { value, previous, previousUntilMs } = secret;
  const hasEnded = previousUntilMs !== null && previousUntilMs <= place.nowMs;
  if (hasEnded) await place.secrets.dropPrevious(place.nowMs);
  const accepted = previous === null || hasEnded ? [value] : [value, previous];
  return accepted.map((each) => openValue(each, secret, keys));
}

async function selectSecrets(
  deployment: string,
  names: readonly string[],
  { secrets }: Pick<SecretPlace, 'secrets'>,
): Promise<ReadonlyMap<string, SealedSecret>> {
  if (names.length === 0) return new Map();
  // The one for all is before the one of the deployment, which replaces it here.
  return new Map((await secrets.select(names, deployment)).map((secret) => [secret.name, secret]));
}

async function requireKeys(found: ReadonlyMap<string, unknown>, { keyFile }: SecretPlace): Promise<SecretKeys> {
  if (found.size === 0) return { keys: [], file: keyFile.path };
  const keys = await readSecretKeys(keyFile);
  if (keys === null) throw createLostKeyError(keyFile.path);
  return keys;
}
