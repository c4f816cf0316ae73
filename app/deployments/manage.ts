/** Lists deployments, and pauses, resumes, rolls back and deletes them. */
import { shorten } from '../../domain/units/quote.ts';
import type { DeploymentRow, TriggerStore, VersionRow } from '../../store/triggers.ts';
import { AppError } from '../app-error.ts';
import type { QueueState } from '../sources/queue/keep-queue.ts';
import type { Caller } from '../access/authenticate.ts';
import { mayCallerSeeDeployment, requireDeployment } from '../access/visible-deployments.ts';
import { enableWithoutCircle, listAbsent, requireFollowed } from './followed.ts';

/** The versions of a deployment that `show` lists. */
export const SHOWN_VERSIONS = 20;
/** The most rows that one page of a caller with few deployments reads. */
const MOST_PAGES = 20;

/** A version without its spec and its paths on the host. */
export interface VersionJson extends Pick<
  VersionRow,
  | 'version'
  | 'createdAtMs'
  | 'deployer'
  | 'specName'
  | 'triggers'
  | 'notify'
  | 'secrets'
  | 'allowGit'
  | 'mockAgents'
  | 'stages'
> {
  /** Names of the parameters that the deployer set; a value may be anything. */
  readonly params: readonly string[];
}

export interface DeploymentJson extends DeploymentRow {
  /** The enabled version. */
  readonly enabled: VersionJson;
}

export interface DeploymentPage {
  readonly deployments: readonly DeploymentJson[];
  /** The name after which the next page begins; null: none follows. */
  readonly next: string | null;
}

export async function listDeployments(
  { limit, after }: { readonly limit: number; readonly after?: string | undefined },
  caller: Caller,
  triggers: TriggerStore,
): Promise<DeploymentPage> {
  const found: DeploymentRow[] = [];
  let at = after;
  for (let pages = 0; pages < MOST_PAGES; pages += 1) {
    const rows = await triggers.deployments.list(limit + 1, at);
    found.push(...rows.filter(({ name }) => mayCallerSeeDeployment(caller, name)));
    at = rows.at(-1)?.name;
    if (rows.length <= limit || found.length > limit) break;
  }
  const page = found.slice(0, limit);
  return {
    deployments: await Promise.all(page.map((row) => withVersion(row, triggers))),
    next: found.length > limit ? page.at(-1)!.name : null,
  };
}

async function withVersion(row: DeploymentRow, { deployments }: TriggerStore): Promise<DeploymentJson> {
  const version = await deployments.findVersion(row.name, row.version);
  if (version === null) throw new Error(`version ${row.version} of the deployment ${row.name} is gone`);
  return { ...row, enabled: toVersionJson(version) };
}

export interface ShownDeployment extends DeploymentJson {
  /** The latest first, at most `SHOWN_VERSIONS`. */
  readonly versions: readonly VersionJson[];
  /** Deployments that its triggers follow, and that do not exist. */
  readonly absentUpstreams: readonly string[];
  /** The queues that this service reads for it. */
  readonly queues: readonly QueueState[];
  /** The triggers of the enabled version whose source cannot be read. */
  readonly problems: readonly TriggerProblem[];
}

export interface TriggerProblem {
  readonly trigger: string;
  readonly code: string;
  readonly message: string;
  readonly sinceMs: number;
}

/**
 * @param queues  those of the deployment
 * @throws AppError `api/no-deployment`, `api/not-allowed`
 */
export async function showDeployment(
  name: string,
  caller: Caller,
  triggers: TriggerStore,
  queues: readonly QueueState[] = [],
): Promise<ShownDeployment> {
  requireDeployment(caller, name);
  const row = await triggers.deployments.find(name);
  if (row === null) throw createUnknownError(name);
  const versions = await triggers.deployments.listVersions(name, SHOWN_VERSIONS);
  const deployment = await withVersion(row, triggers);
  const problems = await triggers.sources.listProblems(name);
  return {
    ...deployment,
    versions: versions.map(toVersionJson),
    absentUpstreams: await listAbsent(deployment.enabled.triggers, triggers.deployments),
    queues,
    problems: problems.map(({ trigger, code, message, sinceMs }) => ({ trigger, code, message, sinceMs })),
  };
}

export type DeploymentChange =
  | { readonly kind: 'pause'; readonly deliveries: 'hold' | 'drop' }
  | { readonly kind: 'resume' }
  | { readonly kind: 'rollback'; /** Null: the version before. */ readonly version: number | null };

/** @throws AppError `api/no-deployment`, `api/not-allowed` */
export async function changeDeployment(
  name: string,
  change: DeploymentChange,
  caller: Caller,
  { triggers, nowMs }: { readonly triggers: TriggerStore; readonly nowMs: number },
): Promise<DeploymentJson> {
  requireDeployment(caller, name);
  const row = await applyChange(name, change, { triggers, nowMs, caller });
  if (row === null) throw createUnknownError(name);
  return await withVersion(row, triggers);
}

async function applyChange(
  name: string,
  change: DeploymentChange,
  {
    triggers: { deployments, deliveries },
    nowMs,
    caller,
  }: { readonly triggers: TriggerStore; readonly nowMs: number; readonly caller: Caller },
): Promise<DeploymentRow | null> {
  switch (change.kind) {
    case 'pause':
      return await deployments.pause(name, change.deliveries, nowMs);
    case 'resume': {
      const resumed = await deployments.resume(name, nowMs);
      if (resumed !== null) await deliveries.releasePaused(name, nowMs);
      return resumed;
    }
    case 'rollback': {
      const current = await deployments.find(name);
      if (current === null) return null;
      const before = change.version ?? (await deployments.listVersions(name, 1, current.version))[0]?.version;
      const version = before === undefined ? null : await deployments.findVersion(name, before);
      requireFollowed(version?.triggers ?? [], caller);
      const enabled =
        before === undefined ? null : await enableWithoutCircle(() => deployments.enable(name, before, nowMs));
      if (enabled === null) throw createNoVersionError(current, before ?? null);
      return enabled;
    }
  }
}

/**
 * Its versions and deliveries stay, because runs name them.
 * @throws AppError `api/no-deployment`, `api/not-allowed`
 */
export async function deleteDeployment(
  name: string,
  caller: Caller,
  { triggers, nowMs }: { readonly triggers: TriggerStore; readonly nowMs: number },
): Promise<void> {
  requireDeployment(caller, name);
  if (!(await triggers.deployments.delete(name, nowMs))) throw createUnknownError(name);
}

export function toVersionJson(row: VersionRow): VersionJson {
  const { version, createdAtMs, deployer, specName, triggers, notify, secrets, allowGit, mockAgents, stages, params } =
    row;
  return {
    version,
    createdAtMs,
    deployer,
    specName,
    triggers,
    notify,
    secrets,
    allowGit,
    mockAgents,
    stages,
    params: Object.keys(params).toSorted(),
  };
}

export function createUnknownError(name: string): AppError {
  return new AppError('usage', 'api/no-deployment', `there is no deployment \`${shorten(name)}\``);
}

function createNoVersionError({ name, version }: DeploymentRow, wanted: number | null): AppError {
  const why = wanted === null ? `no version before ${version}` : `no version ${wanted}`;
  return new AppError('usage', 'deploy/no-version', `the deployment ${name} has ${why}`);
}
