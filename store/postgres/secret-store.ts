import { type ChangedSecrets, MOST_SECRETS, type NewSecret, type SealedSecret, type SealedValue } from '../triggers.ts';
import type { SecretId, SecretRow, SecretStore } from '../triggers.ts';
import type { Database, SendQuery } from './database.ts';
import { fromStoredText, toStoredText } from './stored-text.ts';

interface StoredRow {
  readonly name: string;
  /** Empty: all deployments. */
  readonly deployment: string;
  readonly key_id: string;
  /** Times are `bigint`, which arrive as texts. */
  readonly created_at_ms: string;
  readonly changed_at_ms: string;
  readonly previous_until_ms: string | null;
}

interface StoredSecret extends StoredRow {
  readonly sealed: Buffer;
  readonly previous_key_id: string | null;
  readonly previous: Buffer | null;
}

const ROW = 'name, deployment, key_id, created_at_ms, changed_at_ms, previous_until_ms';
const SECRET = `${ROW}, sealed, previous_key_id, previous`;
const IN_ORDER = 'ORDER BY name, deployment';
/** Changes follow each other, so that the checks of one see the rows of all others. Readers do not wait. */
const LOCK = 'LOCK TABLE voidbox.secrets IN SHARE ROW EXCLUSIVE MODE';

export function createPostgresSecrets(database: Database): SecretStore {
  const select = async (text: string, values: readonly unknown[]): Promise<readonly SealedSecret[]> =>
    (await database.send(text, values, true)).map((row) => readSecret(row as StoredSecret));
  return {
    put: async (secrets, { nowMs, keyIds }) =>
      await database.transact(async (send) => {
        await send(LOCK, []);
        const foreign = await findForeignKeys(send, keyIds);
        if (foreign !== null) return foreign;
        if (await isFull(send, secrets)) return { kind: 'full' };
        return await changeEach(send, secrets, ({ name, deployment, value }) => [
          `INSERT INTO voidbox.secrets (name, deployment, key_id, sealed, created_at_ms, changed_at_ms)
           VALUES ($1, $2, $3, $4, $5, $5)
           ON CONFLICT (name, deployment) DO UPDATE
             SET key_id = $3, sealed = $4, changed_at_ms = $5,
                 previous_key_id = NULL, previous = NULL, previous_until_ms = NULL
           RETURNING ${ROW}`,
          [...writeId({ name, deployment }), value.keyId, Buffer.from(value.bytes), nowMs],
        ]);
      }, true),
    rotate: async (secrets, { nowMs, keyIds, previousUntilMs }) =>
      await database.transact(async (send) => {
        await send(LOCK, []);
        const refusal = (await findForeignKeys(send, keyIds)) ?? (await findAbsent(send, secrets));
        if (refusal !== null) return refusal;
        // Equal bytes have an equal nonce: then the connection was lost during the commit of the first try.
        return await changeEach(send, secrets, ({ name, deployment, value }) => [
          `UPDATE voidbox.secrets
              SET key_id = $3, sealed = $4, changed_at_ms = $5, previous_until_ms = $6,
                  previous_key_id = CASE WHEN sealed = $4 THEN previous_key_id ELSE key_id END,
                  previous = CASE WHEN sealed = $4 THEN previous ELSE sealed END
            WHERE name = $1 AND deployment = $2 RETURNING ${ROW}`,
          [...writeId({ name, deployment }), value.keyId, Buffer.from(value.bytes), nowMs, previousUntilMs],
        ]);
      }, true),
    async list() {
      const rows = await database.send(`SELECT ${ROW} FROM voidbox.secrets ${IN_ORDER}`, [], true);
      return rows.map((row) => readRow(row as StoredRow));
    },
    select: async (names, deployment) =>
      await select(
        `SELECT ${SECRET} FROM voidbox.secrets WHERE name = ANY($1) AND deployment IN ('', $2) ${IN_ORDER}`,
        [names.map(toStoredText), toStoredText(deployment)],
      ),
    async delete(ids) {
      // Found by the first try, whose commit may have succeeded.
      let isFound = false;
      return await database.transact(async (send) => {
        await send(LOCK, []);
        const refusal = isFound ? null : await findAbsent(send, ids);
        if (refusal !== null) return refusal;
        isFound = true;
        const rows: SecretRow[] = [];
        for (const id of ids) {
          const text = `DELETE FROM voidbox.secrets WHERE name = $1 AND deployment = $2 RETURNING ${ROW}`;
          rows.push(...(await send(text, writeId(id))).map((row) => readRow(row as StoredRow)));
        }
        return { kind: 'changed', rows };
      }, true);
    },
    listOfOtherKeys: async (keyId, limit) =>
      await select(
        `SELECT ${SECRET} FROM voidbox.secrets WHERE key_id <> $1 OR previous_key_id <> $1 ${IN_ORDER} LIMIT $2`,
        [keyId, limit],
      ),
    async replaceSealed(secret, { value, previous }) {
      const before = [Buffer.from(secret.value.bytes), toBytes(secret.previous)];
      const after = [value.keyId, Buffer.from(value.bytes), previous?.keyId ?? null, toBytes(previous)];
      // If the connection is lost after the change, the second try finds the own bytes.
      const rows = await database.send(
        `UPDATE voidbox.secrets
            SET key_id = $5, sealed = $6, previous_key_id = $7, previous = $8,
                previous_until_ms = CASE WHEN $8::bytea IS NULL THEN NULL ELSE previous_until_ms END
          WHERE name = $1 AND deployment = $2
            AND (sealed = $3 AND previous IS NOT DISTINCT FROM $4 OR sealed = $6) RETURNING name`,
        [...writeId(secret), ...before, ...after],
        true,
      );
      return rows.length > 0;
    },
    async dropPrevious(nowMs) {
      await database.send(
        `UPDATE voidbox.secrets SET previous_key_id = NULL, previous = NULL, previous_until_ms = NULL
          WHERE previous_until_ms <= $1`,
        [nowMs],
        true,
      );
    },
  };
}

async function findForeignKeys(send: SendQuery, keyIds: readonly string[]): Promise<ChangedSecrets | null> {
  const rows = await send(
    `SELECT DISTINCT id FROM voidbox.secrets, unnest(ARRAY[key_id, previous_key_id]) AS id
      WHERE id <> ALL($1) ORDER BY id`,
    [keyIds],
  );
  return rows.length === 0 ? null : { kind: 'foreign-keys', keyIds: rows.map(({ id }) => String(id)) };
}

async function isFull(send: SendQuery, secrets: readonly SecretId[]): Promise<boolean> {
  const [row] = await send('SELECT count(*)::integer AS count FROM voidbox.secrets', []);
  const { count } = row as { readonly count: number };
  return count + (await listAbsent(send, secrets)).length > MOST_SECRETS;
}

async function findAbsent(send: SendQuery, ids: readonly SecretId[]): Promise<ChangedSecrets | null> {
  const absent = await listAbsent(send, ids);
  return absent.length === 0 ? null : { kind: 'absent', ids: absent };
}

async function listAbsent(send: SendQuery, ids: readonly SecretId[]): Promise<readonly SecretId[]> {
  const absent: SecretId[] = [];
  for (const id of ids) {
    const text = 'SELECT FROM voidbox.secrets WHERE name = $1 AND deployment = $2';
    if ((await send(text, writeId(id))).length === 0) absent.push({ name: id.name, deployment: id.deployment });
  }
  return absent;
}

async function changeEach(
  send: SendQuery,
  secrets: readonly NewSecret[],
  write: (secret: NewSecret) => readonly [text: string, values: readonly unknown[]],
): Promise<ChangedSecrets> {
  const rows: SecretRow[] = [];
  for (const secret of secrets) {
    const [row] = await send(...write(secret));
    rows.push(readRow(row as StoredRow));
  }
  return { kind: 'changed', rows };
}

function writeId({ name, deployment }: SecretId): readonly string[] {
  return [toStoredText(name), toStoredText(deployment ?? '')];
}

function toBytes(value: SealedValue | null): Buffer | null {
  return value === null ? null : Buffer.from(value.bytes);
}

function readRow(row: StoredRow): SecretRow {
  return {
    name: fromStoredText(row.name),
    deployment: row.deployment === '' ? null : fromStoredText(row.deployment),
    keyId: row.key_id,
    createdAtMs: Number(row.created_at_ms),
    changedAtMs: Number(row.changed_at_ms),
    previousUntilMs: row.previous_until_ms === null ? null : Number(row.previous_until_ms),
  };
}

function readSecret(row: StoredSecret): SealedSecret {
  const { sealed, previous_key_id: previousKeyId, previous } = row;
  return {
    ...readRow(row),
    value: { keyId: row.key_id, bytes: new Uint8Array(sealed) },
    previous:
      previous === null || previousKeyId === null ? null : { keyId: previousKeyId, bytes: new Uint8Array(previous) },
  };
}
