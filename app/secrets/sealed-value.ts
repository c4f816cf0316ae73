/** Values of secrets under AES-256-GCM. A sealed value belongs to its name and its deployment, and opens for no others. */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import type { SealedValue, SecretId } from '../../store/triggers.ts';
import { AppError } from '../app-error.ts';
import { createKeyError, type SecretKey, type SecretKeys } from './secret-keys.ts';

const CIPHER = 'aes-256-gcm';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const TAG = { authTagLength: TAG_BYTES } as const;

export function sealValue(text: string, id: SecretId, { id: keyId, key }: SecretKey): SealedValue {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, key, nonce, TAG).setAAD(describeOwner(id));
  const encrypted = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
  return { keyId, bytes: new Uint8Array(Buffer.concat([nonce, encrypted, cipher.getAuthTag()])) };
}

/** @throws AppError `api/secrets-key` without its key, `api/secret-damaged` for bytes that were not sealed for it */
export function openValue({ keyId, bytes }: SealedValue, id: SecretId, { keys, file }: SecretKeys): string {
  const found = keys.find((each) => each.id === keyId);
  if (found === undefined) throw createForeignKeyError([keyId], file);
  const sealed = Buffer.from(bytes);
  try {
    const decipher = createDecipheriv(CIPHER, found.key, sealed.subarray(0, NONCE_BYTES), TAG)
      .setAAD(describeOwner(id))
      .setAuthTag(sealed.subarray(-TAG_BYTES));
    const encrypted = sealed.subarray(NONCE_BYTES, -TAG_BYTES);
    return Buffer.concat([decipher.update(encrypted), decipher.final()]).toString('utf8');
  } catch (error) {
    throw new AppError(
      'environment',
      'api/secret-damaged',
      `the stored value of the secret ${describeSecret(id)} is not the one that was encrypted for it`,
      `Set it again: voidbox secret set ${id.name}${id.deployment === null ? '' : ` --deployment ${id.deployment}`}`,
      error,
    );
  }
}

/** Another name or deployment, and another use of the same key, has other bytes. */
function describeOwner({ name, deployment }: SecretId): Buffer {
  return Buffer.from(JSON.stringify(['voidbox secret', 1, name, deployment]));
}

/** Such as `KEY` or `KEY of web`. */
export function describeSecret({ name, deployment }: SecretId): string {
  return deployment === null ? name : `${name} of ${deployment}`;
}

/** @param keyIds  keys of stored values that the file lacks */
export function createForeignKeyError(keyIds: readonly string[], file: string): AppError {
  return createKeyError(
    `stored secrets are encrypted with ${keyIds.length === 1 ? 'the key' : 'the keys'} ${keyIds.join(', ')}, which the file ${file} does not have`,
    `Add the missing key to the file, after the first line. If it is lost, remove the secrets that need it, and set them again: voidbox secret list shows the key of each.`,
  );
}
