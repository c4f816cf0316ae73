/** Answers of the API about deployments. Its process may be of another build, so each answer is checked. */
import type { DeployResult } from '../../app/deployments/deploy.ts';
import type { DeploymentJson, ShownDeployment, VersionJson } from '../../app/deployments/manage.ts';
import { createForeignError } from '../access/answers.ts';

const VERSION_FIELDS = [
  'version',
  'createdAtMs',
  'deployer',
  'specName',
  'triggers',
  'notify',
  'secrets',
  'stages',
  'params',
  'mockAgents',
];
const DEPLOYMENT_FIELDS = ['name', 'version', 'isPaused', 'onPause', 'createdAtMs', 'changedAtMs', 'enabled'];
const DEPLOYED_FIELDS = [
  'name',
  'version',
  'isNew',
  'isPaused',
  'changes',
  'triggers',
  'notify',
  'secrets',
  'absentUpstreams',
  'diagnostics',
];

export function parseDeployed(answer: unknown): DeployResult {
  if (hasFields(answer, DEPLOYED_FIELDS)) return answer as unknown as DeployResult;
  throw createForeignError();
}

export function parseDeployment(answer: unknown): DeploymentJson {
  if (hasFields(answer, DEPLOYMENT_FIELDS) && isVersion(answer['enabled'])) return answer as unknown as DeploymentJson;
  throw createForeignError();
}

export function parseShown(answer: unknown): ShownDeployment {
  const { versions, absentUpstreams, queues } = parseDeployment(answer) as {
    readonly versions?: unknown;
    readonly absentUpstreams?: unknown;
    readonly queues?: unknown;
  };
  const hasQueues = Array.isArray(queues) && queues.every(isQueue);
  if (hasQueues && Array.isArray(versions) && versions.every(isVersion) && Array.isArray(absentUpstreams))
    return answer as ShownDeployment;
  throw createForeignError();
}

/** A page. `next` is the cursor of the next page; null: no deployment follows. */
export interface DeploymentsAnswer {
  readonly deployments: readonly DeploymentJson[];
  readonly next: string | null;
}

export function parseDeployments(answer: unknown): DeploymentsAnswer {
  const { deployments, next = null } = (answer ?? {}) as { readonly deployments?: unknown; readonly next?: unknown };
  if (Array.isArray(deployments) && (next === null || typeof next === 'string'))
    return { deployments: deployments.map(parseDeployment), next };
  throw createForeignError();
}

function isQueue(value: unknown): boolean {
  return hasFields(value, ['trigger', 'state', 'code', 'message', 'sinceMs']);
}

function isVersion(value: unknown): value is VersionJson {
  return hasFields(value, VERSION_FIELDS) && Array.isArray(value['triggers']) && Array.isArray(value['secrets']);
}

function hasFields(value: unknown, names: readonly string[]): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && names.every((name) => name in value);
}
