/** Secrets in memory, for tests of what uses them. Their values are encrypted, as in a database. */
import { type ChangedSecrets, MOST_SECRETS, type SealedSecret, type SecretId } from '../../../store/triggers.ts';
import type { SecretRow, SecretStore } from '../../../store/triggers.ts';

export function createMemorySecrets(): SecretStore {
  const kept = new Map<string, SealedSecret>();
  const all = (): readonly SealedSecret[] => [...kept.values()].toSorted(compareIds);
  const findForeignKeys = (keyIds: readonly string[]): ChangedSecrets | null => {
    const used = all().flatMap(({ value, previous }) => [value, ...(previous === null ? [] : [previous])]);
    const foreign = new Set(used.map(({ keyId }) => keyId).filter((keyId) => !keyIds.includes(keyId)));
    return foreign.size === 0 ? null : { kind: 'foreign-keys', keyIds: [...foreign].toSorted() };
  };
  const listAbsent = (ids: readonly SecretId[]): readonly SecretId[] =>
    ids.filter((id) => !kept.has(toKey(id))).map(({ name, deployment }) => ({ name, deployment }));
  const findAbsent = (ids: readonly SecretId[]): ChangedSecrets | null => {
    const absent = listAbsent(ids);
    return absent.length === 0 ? null : { kind: 'absent', ids: absent };
  };
  const change = (secrets: readonly SealedSecret[]): ChangedSecrets => {
    for (const secret of secrets) kept.set(toKey(secret), structuredClone(secret));
    return { kind: 'changed', rows: secrets.map(hideValues) };
  };
  return {
    put(secrets, { nowMs, keyIds }) {
      const foreign = findForeignKeys(keyIds);
      if (foreign !== null) return Promise.resolve(foreign);
      if (kept.size + listAbsent(secrets).length > MOST_SECRETS) return Promise.resolve({ kind: 'full' });
      const made = secrets.map((secret) => {
        const createdAtMs = kept.get(toKey(secret))?.createdAtMs ?? nowMs;
        return { ...toSecret(secret), createdAtMs, changedAtMs: nowMs, previous: null, previousUntilMs: null };
      });
      return Promise.resolve(change(made));
    },
    rotate(secrets, { nowMs, keyIds, previousUntilMs }) {
      const refusal = findForeignKeys(keyIds) ?? findAbsent(secrets);
      if (refusal !== null) return Promise.resolve(refusal);
      const made = secrets.map((secret) => {
        const { createdAtMs, value } = kept.get(toKey(secret))!;
        return { ...toSecret(secret), createdAtMs, changedAtMs: nowMs, previous: value, previousUntilMs };
      });
      return Promise.resolve(change(made));
    },
    list: () => Promise.resolve(all().map(hideValues)),
    select: (names, deployment) =>
      Promise.resolve(
        structuredClone(
          all().filter((each) => names.includes(each.name) && [null, deployment].includes(each.deployment)),
        ),
      ),
    delete(ids) {
      const absent = findAbsent(ids);
      if (absent !== null) return Promise.resolve(absent);
      const rows = ids.map((id) => hideValues(kept.get(toKey(id))!));
      for (const id of ids) kept.delete(toKey(id));
      return Promise.resolve({ kind: 'changed', rows });
    },
    listOfOtherKeys: (keyId, limit) =>
      Promise.resolve(
        structuredClone(
          all()
            .filter(({ value, previous }) => value.keyId !== keyId || (previous !== null && previous.keyId !== keyId))
            .slice(0, limit),
        ),
      ),
    replaceSealed(secret, { value, previous }) {
      const current = kept.get(toKey(secret));
      if (current === undefined || !isEqual(current, secret)) return Promise.resolve(false);
      const previousUntilMs = previous === null ? null : current.previousUntilMs;
      change([{ ...current, keyId: value.keyId, value, previous, previousUntilMs }]);
      return Promise.resolve(true);
    },
    dropPrevious(nowMs) {
      for (const secret of all())
        if (secret.previousUntilMs !== null && secret.previousUntilMs <= nowMs)
          change([{ ...secret, previous: null, previousUntilMs: null }]);
      return Promise.resolve();
    },
  };
}

type Given = SecretId & Pick<SealedSecret, 'value'>;

function toSecret({ name, deployment, value }: Given): Given & Pick<SealedSecret, 'keyId'> {
  return { name, deployment, keyId: value.keyId, value };
}

function toKey({ name, deployment }: SecretId): string {
  return JSON.stringify([name, deployment]);
}

function isEqual(one: SealedSecret, other: SealedSecret): boolean {
  const hasBytes = (first: SealedSecret['previous'], second: SealedSecret['previous']): boolean =>
    first === null || second === null ? first === second : Buffer.compare(first.bytes, second.bytes) === 0;
  return hasBytes(one.value, other.value) && hasBytes(one.previous, other.previous);
}

function hideValues({ value: _value, previous: _previous, ...row }: SealedSecret): SecretRow {
  return row;
}

function compareIds(one: SecretId, other: SecretId): number {
  const names = Buffer.compare(Buffer.from(one.name), Buffer.from(other.name));
  return names === 0 ? Buffer.compare(Buffer.from(one.deployment ?? ''), Buffer.from(other.deployment ?? '')) : names;
}
