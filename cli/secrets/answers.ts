/** Answers of the API about secrets. Its process may be of another build, so each answer is checked. */
import type { RekeyedSecrets } from '../../app/secrets/encrypt-again.ts';
import type { SecretRow } from '../../store/triggers.ts';
import { createForeignError } from '../access/answers.ts';

const FIELDS = ['name', 'deployment', 'keyId', 'createdAtMs', 'changedAtMs', 'previousUntilMs'] as const;

/** Returns only the fields that this version knows. */
export function parseSecrets(answer: unknown): readonly SecretRow[] {
  const { secrets } = (answer ?? {}) as { readonly secrets?: unknown };
  if (!Array.isArray(secrets)) throw createForeignError();
  return secrets.map((each: unknown) => {
    const row = (each ?? {}) as SecretRow;
    const { name, deployment, keyId, createdAtMs, changedAtMs, previousUntilMs } = row;
    const hasFields = typeof each === 'object' && each !== null && FIELDS.every((field) => field in each);
    if (!hasFields || typeof name !== 'string') throw createForeignError();
    return { name, deployment, keyId, createdAtMs, changedAtMs, previousUntilMs };
  });
}

export function parseRekeyed(answer: unknown): RekeyedSecrets {
  const { keyId, changed } = (answer ?? {}) as Partial<RekeyedSecrets>;
  if ((typeof keyId === 'string' || keyId === null) && typeof changed === 'number') return { keyId, changed };
  throw createForeignError();
}
