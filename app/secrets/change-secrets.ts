/** Sets, rotates, removes and lists secrets of deployments. No answer contains a value. */
import { findNameProblem } from '../../domain/delivery/deployment-name.ts';
import { isVariable, VARIABLE_LIMITS, VARIABLE_REMEDY } from '../../domain/language/grammar/values.ts';
import { shorten } from '../../domain/units/quote.ts';
import { countUtf8Bytes } from '../../domain/units/utf8.ts';
import {
  type ChangedSecrets,
  MOST_SECRET_BYTES,
  MOST_SECRETS,
  type NewSecret,
  type SecretId,
  type SecretRow,
  type SecretStore,
} from '../../store/triggers.ts';
import { AppError } from '../app-error.ts';
import { createForeignKeyError, describeSecret, sealValue } from './sealed-value.ts';
import { createKeyError, makeSecretKeys, readSecretKeys, type SecretKeyFile, type SecretKeys } from './secret-keys.ts';

/** The most deployments of one change. */
export const MOST_SECRET_DEPLOYMENTS = 100;
/** How long webhooks accept the value before a rotation that names no other time. */
export const PREVIOUS_KEPT_MS = 24 * 60 * 60_000;
export const MOST_PREVIOUS_KEPT_MS = 7 * 24 * 60 * 60_000;
export const LEAST_PREVIOUS_KEPT_MS = 1_000;

export interface SecretTarget {
  readonly name: string;
  /** Each of them gets a value of its own. Empty: one value for all deployments. */
  readonly deployments: readonly string[];
}

export interface SecretPlace {
  readonly secrets: SecretStore;
  readonly keyFile: SecretKeyFile;
  readonly nowMs: number;
}

/**
 * Adds or replaces values. Webhooks refuse the value before at once.
 * @throws AppError `api/invalid-request`, `api/secrets-key`, `api/secrets-full`
 */
export async function setSecret(
  target: SecretTarget & { readonly value: string },
  { secrets, keyFile, nowMs }: SecretPlace,
): Promise<readonly SecretRow[]> {
  const ids = checkTarget(target);
  checkValue(target.value);
  const keys = (await readSecretKeys(keyFile)) ?? (await makeFirstKey(keyFile, secrets));
  const change = { nowMs, keyIds: keys.keys.map(({ id }) => id) };
  return requireChanged(await secrets.put(sealFor(ids, target.value, keys), change), keys.file);
}

/**
 * Replaces values. Webhooks accept the value before for `keepMs` too.
 * @throws AppError `api/invalid-request`, `api/no-secret`, `api/secrets-key`
 */
export async function rotateSecret(
  target: SecretTarget & { readonly value: string; readonly keepMs: number },
  { secrets, keyFile, nowMs }: SecretPlace,
): Promise<readonly SecretRow[]> {
  const ids = checkTarget(target);
  checkValue(target.value);
  const { keepMs } = target;
  if (!(keepMs >= LEAST_PREVIOUS_KEPT_MS && keepMs <= MOST_PREVIOUS_KEPT_MS))
    throw refuse('keepMs', `${keepMs}`, 'the value before is kept for 1 second to 7 days');
  const keys = await readSecretKeys(keyFile);
  // Without a key there is no value, unless the key is lost.
  if (keys === null) throw (await findLostKey(keyFile, secrets)) ?? (await createAbsentError(ids, secrets));
  const change = { nowMs, keyIds: keys.keys.map(({ id }) => id), previousUntilMs: nowMs + keepMs };
  const changed = await secrets.rotate(sealFor(ids, target.value, keys), change);
  if (changed.kind === 'absent') throw await createAbsentError(changed.ids, secrets);
  return requireChanged(changed, keys.file);
}

/** It needs no key, so that a secret whose key is lost can be removed. @throws AppError `api/no-secret` */
export async function removeSecret(
  target: SecretTarget,
  { secrets }: Pick<SecretPlace, 'secrets'>,
): Promise<readonly SecretRow[]> {
  const changed = await secrets.delete(checkTarget(target));
  if (changed.kind === 'absent') throw await createAbsentError(changed.ids, secrets);
  return requireChanged(changed, '');
}

/** Returns all secrets by name, without their values. */
export async function listSecrets({
  secrets,
  nowMs,
}: Pick<SecretPlace, 'secrets' | 'nowMs'>): Promise<readonly SecretRow[]> {
  await secrets.dropPrevious(nowMs);
  return await secrets.list();
}

function checkTarget({ name, deployments }: SecretTarget): readonly SecretId[] {
  if (!isVariable(name))
    throw refuse('name', name, `${VARIABLE_REMEDY}; at most ${VARIABLE_LIMITS.nameLength} characters`);
  if (deployments.length > MOST_SECRET_DEPLOYMENTS)
    throw refuse('deployments', `${deployments.length} names`, `there may be at most ${MOST_SECRET_DEPLOYMENTS}`);
  for (const deployment of deployments) {
    const problem = findNameProblem(deployment);
    if (problem !== null) throw refuse('deployments', deployment, problem);
  }
  return deployments.length === 0
    ? [{ name, deployment: null }]
    : [...new Set(deployments)].map((deployment) => ({ name, deployment }));
}

/** A command gets the value as a variable, so it is a text that one can have. */
function checkValue(value: string): void {
  const sizeBytes = countUtf8Bytes(value);
  const problem =
    sizeBytes === 0
      ? 'it is empty'
      : sizeBytes > MOST_SECRET_BYTES
        ? `it has ${sizeBytes} bytes; a secret has at most ${MOST_SECRET_BYTES}`
        : value.includes('\0')
          ? 'it has a zero byte, which no variable can have; store base64, and decode it in the command'
          : /\p{Surrogate}/u.test(value)
            ? 'it is not Unicode text; store base64, and decode it in the command'
            : null;
  // The message does not contain the value.
  if (problem !== null) throw new AppError('usage', 'api/invalid-request', `\`value\`: ${problem}`);
}

function refuse(key: string, value: string, problem: string): AppError {
  return new AppError('usage', 'api/invalid-request', `\`${key}\`: \`${shorten(value)}\` is not valid: ${problem}`);
}

function sealFor(ids: readonly SecretId[], value: string, { keys }: SecretKeys): readonly NewSecret[] {
  return ids.map((id) => ({ ...id, value: sealValue(value, id, keys[0]!) }));
}

/**
 * Returns the keys for a use that stores no value, such as a signature, and makes the first one if the file is missing.
 * @throws AppError `api/secrets-key`
 */
export async function openSigningKeys({
  keyFile,
  secrets,
}: Pick<SecretPlace, 'keyFile' | 'secrets'>): Promise<SecretKeys> {
  return (await readSecretKeys(keyFile)) ?? (await makeFirstKey(keyFile, secrets));
}

/** Never makes a key if there are secrets: it could not decrypt them. */
async function makeFirstKey(keyFile: SecretKeyFile, secrets: SecretStore): Promise<SecretKeys> {
  const lost = await findLostKey(keyFile, secrets);
  if (lost !== null) throw lost;
  return await makeSecretKeys(keyFile.path);
}

async function findLostKey({ path }: SecretKeyFile, secrets: SecretStore): Promise<AppError | null> {
  const [some] = await secrets.list();
  return some === undefined ? null : createLostKeyError(path);
}

/** The error for stored secrets without the file of their keys. */
export function createLostKeyError(path: string): AppError {
  return createKeyError(
    `the file ${path} with the key of the stored secrets is missing`,
    'Restore it from a backup, or name it with VOIDBOX_SECRETS_KEY_FILE. If it is lost, remove all secrets and set them again: voidbox secret list, voidbox secret rm NAME',
  );
}

/** @param ids  secrets that do not exist */
async function createAbsentError(ids: readonly SecretId[], secrets: SecretStore): Promise<AppError> {
  const [{ name } = { name: '' }] = ids;
  const others = (await secrets.list()).filter((row) => row.name === name);
  const known = others.slice(0, 10).map(({ deployment }) => (deployment === null ? 'all deployments' : deployment));
  const hint = known.length === 0 ? '' : `; it exists for ${known.join(', ')}${others.length > 10 ? ', …' : ''}`;
  const wanted = ids.map(({ deployment }) => (deployment === null ? 'all deployments' : deployment)).join(', ');
  return new AppError('usage', 'api/no-secret', `there is no secret ${name} for ${wanted}${hint}`);
}

/** @param file  the path of the key file, for the error */
export function requireChanged(changed: ChangedSecrets, file: string): readonly SecretRow[] {
  switch (changed.kind) {
    case 'changed':
      return changed.rows;
    case 'foreign-keys':
      throw createForeignKeyError(changed.keyIds, file);
    case 'full':
      throw new AppError('usage', 'api/secrets-full', `there are ${MOST_SECRETS} secrets, which is the most`);
    case 'absent':
      throw new AppError('usage', 'api/no-secret', `there is no secret ${changed.ids.map(describeSecret).join(', ')}`);
  }
}
