/** Encrypts all stored values with the first key of the file, so that the others can be removed from it. */
import type { SealedSecret, SealedValue } from '../../store/triggers.ts';
import { createLostKeyError, requireChanged, type SecretPlace } from './change-secrets.ts';
import { openValue, sealValue } from './sealed-value.ts';
import { createKeyError, readSecretKeys, type SecretKeys } from './secret-keys.ts';

const AT_ONCE = 100;
/** A secret that changes between its reading and its writing is read again. More rounds mean two services with two first keys. */
const MOST_ROUNDS = 1_000;

export interface RekeyedSecrets {
  /** The key that encrypts all values now. Null: there is no secret, and no key. */
  readonly keyId: string | null;
  /** The number of secrets that had another key. */
  readonly changed: number;
}

/**
 * A call that was killed has changed some secrets, and the next one changes the others.
 * @throws AppError `api/secrets-key` if the file lacks a key; then nothing has changed. `api/secret-damaged`
 */
export async function encryptAgain(place: SecretPlace): Promise<RekeyedSecrets> {
  const { secrets, keyFile, nowMs } = place;
  const keys = await readSecretKeys(keyFile);
  const rows = await secrets.list();
  if (keys === null) {
    if (rows.length > 0) throw createLostKeyError(keyFile.path);
    return { keyId: null, changed: 0 };
  }
  await secrets.dropPrevious(nowMs);
  // A change of no secret only checks that the file has the key of each value.
  requireChanged(await secrets.put([], { nowMs, keyIds: keys.keys.map(({ id }) => id) }), keys.file);
  const keyId = keys.keys[0]!.id;
  let changed = 0;
  for (let round = 0; round < MOST_ROUNDS; round += 1) {
    const found = await secrets.listOfOtherKeys(keyId, AT_ONCE);
    if (found.length === 0) return { keyId, changed };
    for (const secret of found) if (await secrets.replaceSealed(secret, sealWithFirst(secret, keys))) changed += 1;
  }
  throw createKeyError(
    'another service encrypts secrets with another first key at the same time',
    `Give all services the same key file as ${keys.file}, and run it again: voidbox secret rekey`,
  );
}

function sealWithFirst(secret: SealedSecret, keys: SecretKeys): Pick<SealedSecret, 'value' | 'previous'> {
  const seal = (value: SealedValue): SealedValue => sealValue(openValue(value, secret, keys), secret, keys.keys[0]!);
  return { value: seal(secret.value), previous: secret.previous === null ? null : seal(secret.previous) };
}
