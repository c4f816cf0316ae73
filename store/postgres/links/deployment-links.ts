/** Which enabled versions follow the runs of which deployments. */
import { describeCircle, findCircle, type Link, listUpstreams } from '../../../domain/delivery/links.ts';
import { CodedError } from '../../../domain/errors/coded-error.ts';
import type { VersionRow } from '../../triggers.ts';
import type { SendQuery } from '../database.ts';
import { fromStoredText, toStoredText } from '../stored-text.ts';

/** The advisory lock under which links are added, so that two deployments cannot close a circle together. */
const LINK_LOCK = 861_153;

export async function writeLinks(send: SendQuery, { deployment, version, triggers }: VersionRow): Promise<void> {
  await send('INSERT INTO voidbox.links (deployment, version, upstream) SELECT $1, $2, unnest($3::text[])', [
    toStoredText(deployment),
    version,
    listUpstreams(triggers).map(toStoredText),
  ]);
}

/** Returns the links of enabled versions. A deployment that does not exist may be an upstream. */
export async function readLinks(send: SendQuery): Promise<readonly Link[]> {
  const rows = (await send(
    `SELECT deployment, upstream FROM voidbox.links JOIN voidbox.deployments ON name = deployment
      WHERE links.version = deployments.version AND deleted_at_ms IS NULL`,
    [],
  )) as readonly { readonly deployment: string; readonly upstream: string }[];
  return rows.map(({ deployment, upstream }) => ({
    deployment: fromStoredText(deployment),
    upstream: fromStoredText(upstream),
  }));
}

export async function readUpstreams(send: SendQuery, name: string, version: number): Promise<readonly string[]> {
  const rows = await send('SELECT upstream FROM voidbox.links WHERE deployment = $1 AND version = $2', [
    toStoredText(name),
    version,
  ]);
  return rows.map((row) => fromStoredText((row as { readonly upstream: string }).upstream));
}

export async function listFollowed(send: SendQuery, names: readonly string[]): Promise<readonly string[]> {
  const rows = await send(
    `SELECT DISTINCT upstream FROM voidbox.links JOIN voidbox.deployments ON name = deployment
      WHERE links.version = deployments.version AND deleted_at_ms IS NULL AND upstream = ANY ($1)`,
    [names.map(toStoredText)],
  );
  return rows.map((row) => fromStoredText((row as { readonly upstream: string }).upstream));
}

/**
 * Call this in the transaction that enables a version. The lock is held until its end.
 * @param upstreams  those of the version
 * @throws CodedError `deploy/circle`
 */
export async function refuseCircle(send: SendQuery, name: string, upstreams: readonly string[]): Promise<void> {
  if (upstreams.length === 0) return;
  await send('SELECT pg_advisory_xact_lock($1)', [LINK_LOCK]);
  // A query of its own: it sees what the holder of the lock before has committed.
  const others = (await readLinks(send)).filter(({ deployment }) => deployment !== name);
  refuseCircleOf(name, [...others, ...upstreams.map((upstream) => ({ deployment: name, upstream }))]);
}

/** @throws CodedError `deploy/circle` */
function refuseCircleOf(name: string, links: readonly Link[]): void {
  const circle = findCircle(links, name);
  if (circle === null) return;
  throw new CodedError('deploy/circle', `deployments would follow each other: ${describeCircle(circle)}`);
}
