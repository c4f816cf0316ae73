import { listUpstreams } from '../../domain/delivery/links.ts';
import type { DeploymentRow, DeploymentStore, NewVersion, VersionRow } from '../triggers.ts';
import type { Database, SendQuery } from './database.ts';
import { listFollowed, readLinks, readUpstreams, refuseCircle, writeLinks } from './links/deployment-links.ts';
import { fromStoredText, toStoredText } from './stored-text.ts';

interface StoredDeployment {
  readonly name: string;
  readonly version: number;
  readonly is_paused: boolean;
  readonly on_pause: 'hold' | 'drop';
  /** Times are `bigint`, which arrive as texts. */
  readonly created_at_ms: string;
  readonly changed_at_ms: string;
}

interface StoredVersion {
  readonly deployment: string;
  readonly version: number;
  readonly created_at_ms: string;
  readonly deployer: string | null;
  readonly folder: string;
  readonly hash: string;
  readonly facts: string;
}

/** The part of a version that no query reads. */
type Facts = Omit<NewVersion, 'deployment' | 'createdAtMs' | 'deployer' | 'folder' | 'hash'>;

const DEPLOYMENT = 'name, version, is_paused, on_pause, created_at_ms, changed_at_ms';
const VERSION = 'deployment, version, created_at_ms, deployer, folder, hash, facts';

export function createPostgresDeployments(database: Database): DeploymentStore {
  const select = async (text: string, values: readonly unknown[]): Promise<DeploymentRow | null> => {
    const [row] = await database.send(text, values, true);
    return row === undefined ? null : readDeployment(row as StoredDeployment);
  };
  return {
    async deploy(version, { isPaused }) {
      const name = toStoredText(version.deployment);
      // If the connection is lost during the commit, the second try finds the same hash and the own folder.
      return await database.transact(async (send) => {
        await send(
          `INSERT INTO voidbox.deployments (name, version, is_paused, on_pause, created_at_ms, changed_at_ms, deleted_at_ms)
           VALUES ($1, 1, $2, 'hold', $3, $3, $3) ON CONFLICT (name) DO NOTHING`,
          [name, isPaused, version.createdAtMs],
        );
        const [current] = await send('SELECT * FROM voidbox.deployments WHERE name = $1 FOR UPDATE', [name]);
        const { deleted_at_ms: deletedAtMs } = current as { readonly deleted_at_ms: string | null };
        const isOpen = deletedAtMs === null;
        const enabled = isOpen ? await findVersion(send, name, (current as StoredDeployment).version) : null;
        if (enabled?.hash === version.hash) {
          const deployment = readDeployment(current as StoredDeployment);
          return { deployment, version: enabled, isNew: enabled.folder === version.folder };
        }
        await refuseCircle(send, version.deployment, listUpstreams(version.triggers));
        return await addVersion(send, version, isOpen ? null : { isPaused });
      }, true);
    },
    find: async (name) =>
      await select(`SELECT ${DEPLOYMENT} FROM voidbox.deployments WHERE name = $1 AND deleted_at_ms IS NULL`, [
        toStoredText(name),
      ]),
    async list(limit, after) {
      const rows = await database.send(
        `SELECT ${DEPLOYMENT} FROM voidbox.deployments
          WHERE deleted_at_ms IS NULL AND ($2::text IS NULL OR name > $2) ORDER BY name LIMIT $1`,
        [limit, after === undefined ? null : toStoredText(after)],
        true,
      );
      return rows.map((row) => readDeployment(row as StoredDeployment));
    },
    async readMark() {
      const [row] = await database.send(
        `SELECT count(*) || ' ' || coalesce(sum(hashtextextended(deployments::text, 0)), 0) AS mark
           FROM voidbox.deployments WHERE deleted_at_ms IS NULL`,
        [],
        true,
      );
      return (row as { readonly mark: string }).mark;
    },
    findVersion: async (name, version) =>
      await findVersion((text, values) => database.send(text, values, true), toStoredText(name), version),
    async findVersions(versions) {
      const rows = await database.send(
        `SELECT ${VERSION} FROM voidbox.versions
           JOIN unnest($1::text[], $2::integer[]) AS asked (deployment, version) USING (deployment, version)`,
        [versions.map(({ deployment }) => toStoredText(deployment)), versions.map(({ version }) => version)],
        true,
      );
      return rows.map((row) => readVersion(row as StoredVersion));
    },
    async listVersions(name, limit, before) {
      const rows = await database.send(
        `SELECT ${VERSION} FROM voidbox.versions
          WHERE deployment = $1 AND ($3::integer IS NULL OR version < $3) ORDER BY version DESC LIMIT $2`,
        [toStoredText(name), limit, before ?? null],
        true,
      );
      return rows.map((row) => readVersion(row as StoredVersion));
    },
    pause: async (name, onPause, nowMs) =>
      await select(
        `UPDATE voidbox.deployments SET is_paused = true, on_pause = $2, changed_at_ms = $3
          WHERE name = $1 AND deleted_at_ms IS NULL RETURNING ${DEPLOYMENT}`,
        [toStoredText(name), onPause, nowMs],
      ),
    resume: async (name, nowMs) =>
      await select(
        `UPDATE voidbox.deployments SET is_paused = false, changed_at_ms = $2
          WHERE name = $1 AND deleted_at_ms IS NULL RETURNING ${DEPLOYMENT}`,
        [toStoredText(name), nowMs],
      ),
    enable: async (name, version, nowMs) =>
      await database.transact(async (send) => {
        const stored = toStoredText(name);
        await send('SELECT FROM voidbox.deployments WHERE name = $1 FOR UPDATE', [stored]);
        await refuseCircle(send, name, await readUpstreams(send, name, version));
        const [row] = await send(
          `UPDATE voidbox.deployments SET version = $2, changed_at_ms = $3
            WHERE name = $1 AND deleted_at_ms IS NULL
              AND EXISTS (SELECT FROM voidbox.versions WHERE deployment = $1 AND version = $2)
            RETURNING ${DEPLOYMENT}`,
          [stored, version, nowMs],
        );
        return row === undefined ? null : readDeployment(row as StoredDeployment);
      }, true),
    async delete(name, nowMs) {
      // A second try of a lost answer finds the time that the first one wrote.
      const rows = await database.send(
        `WITH ended AS (DELETE FROM voidbox.schedule_pauses WHERE deployment = $1)
         UPDATE voidbox.deployments SET deleted_at_ms = $2, changed_at_ms = $2
          WHERE name = $1 AND (deleted_at_ms IS NULL OR deleted_at_ms = $2) RETURNING name`,
        [toStoredText(name), nowMs],
        true,
      );
      return rows.length > 0;
    },
    async hasEnabled() {
      const [row] = await database.send(
        'SELECT EXISTS (SELECT FROM voidbox.deployments WHERE deleted_at_ms IS NULL AND NOT is_paused) AS found',
        [],
        true,
      );
      return (row as { readonly found: boolean }).found;
    },
    async hasFolder(folder) {
      const rows = await database.send('SELECT FROM voidbox.versions WHERE folder = $1', [toStoredText(folder)], true);
      return rows.length > 0;
    },
    listFollowed: async (names) => await listFollowed((text, values) => database.send(text, values, true), names),
    listLinks: async () => await readLinks((text, values) => database.send(text, values, true)),
  };
}

/** @param restored  the state of a deployment that was deleted or is new; null: its state stays */
async function addVersion(
  send: SendQuery,
  version: NewVersion,
  restored: { readonly isPaused: boolean } | null,
): ReturnType<DeploymentStore['deploy']> {
  const { deployment, createdAtMs, deployer, folder, hash, ...facts } = version;
  const name = toStoredText(deployment);
  const [added] = await send(
    `INSERT INTO voidbox.versions (${VERSION}, is_notifying)
     SELECT $1, coalesce(max(version), 0) + 1, $2, $3, $4, $5, $6, $7 FROM voidbox.versions WHERE deployment = $1
     RETURNING ${VERSION}`,
    [
      name,
      createdAtMs,
      deployer === null ? null : toStoredText(deployer),
      toStoredText(folder),
      hash,
      // JSON escapes NUL and lone surrogates.
      JSON.stringify(facts satisfies Facts),
      facts.notify.receivers.length > 0,
    ],
  );
  const made = readVersion(added as StoredVersion);
  await writeLinks(send, made);
  const [changed] = await send(
    `UPDATE voidbox.deployments
        SET version = $2, changed_at_ms = $3, deleted_at_ms = NULL,
            is_paused = coalesce($4, is_paused),
            on_pause = CASE WHEN $4::boolean IS NULL THEN on_pause ELSE 'hold' END,
            created_at_ms = CASE WHEN $4::boolean IS NULL THEN created_at_ms ELSE $3 END
      WHERE name = $1 RETURNING ${DEPLOYMENT}`,
    [name, made.version, createdAtMs, restored?.isPaused ?? null],
  );
  return { deployment: readDeployment(changed as StoredDeployment), version: made, isNew: true };
}

export async function findVersion(send: SendQuery, storedName: string, version: number): Promise<VersionRow | null> {
  const [row] = await send(`SELECT ${VERSION} FROM voidbox.versions WHERE deployment = $1 AND version = $2`, [
    storedName,
    version,
  ]);
  return row === undefined ? null : readVersion(row as StoredVersion);
}

function readDeployment(row: StoredDeployment): DeploymentRow {
  return {
    name: fromStoredText(row.name),
    version: row.version,
    isPaused: row.is_paused,
    onPause: row.on_pause,
    createdAtMs: Number(row.created_at_ms),
    changedAtMs: Number(row.changed_at_ms),
  };
}

function readVersion(row: StoredVersion): VersionRow {
  return {
    // Only this file writes the facts.
    ...(JSON.parse(row.facts) as Facts),
    deployment: fromStoredText(row.deployment),
    version: row.version,
    createdAtMs: Number(row.created_at_ms),
    deployer: row.deployer === null ? null : fromStoredText(row.deployer),
    folder: fromStoredText(row.folder),
    hash: row.hash,
  };
}
