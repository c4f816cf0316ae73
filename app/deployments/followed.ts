/** Checks the deployments that a version follows: its deployer may see their runs, and they do not lead back to it. */
import { describeCircle, findCircle, listUpstreams } from '../../domain/delivery/links.ts';
import type { Trigger } from '../../domain/delivery/trigger.ts';
import { isCodedError } from '../../domain/errors/coded-error.ts';
import { remedyOf } from '../../domain/errors/error-code.ts';
import type { DeploymentStore } from '../../store/triggers.ts';
import type { Caller } from '../access/authenticate.ts';
import { requireDeployment } from '../access/visible-deployments.ts';
import { AppError } from '../app-error.ts';

type Triggers = readonly Pick<Trigger, 'source'>[];

/**
 * The payload of an end has outputs of the run.
 * @throws AppError `api/not-allowed`, also for a deployment that does not exist
 */
export function requireFollowed(triggers: Triggers, caller: Caller): void {
  for (const name of listUpstreams(triggers)) requireDeployment(caller, name);
}

/** Returns the names of followed deployments that do not exist: such a trigger waits for nothing. */
export async function listAbsent(
  triggers: Triggers,
  { find }: Pick<DeploymentStore, 'find'>,
): Promise<readonly string[]> {
  const absent: string[] = [];
  for (const name of listUpstreams(triggers)) if ((await find(name)) === null) absent.push(name);
  return absent;
}

/**
 * The answer of a dry run. The store checks again when it enables the version.
 * @throws AppError `deploy/circle`
 */
export async function refuseCircle(
  name: string,
  triggers: Triggers,
  { listLinks }: Pick<DeploymentStore, 'listLinks'>,
): Promise<void> {
  const upstreams = listUpstreams(triggers);
  if (upstreams.length === 0) return;
  const others = (await listLinks()).filter(({ deployment }) => deployment !== name);
  const circle = findCircle([...others, ...upstreams.map((upstream) => ({ deployment: name, upstream }))], name);
  if (circle !== null) throw createCircleError(`deployments would follow each other: ${describeCircle(circle)}`);
}

/**
 * Calls the function that enables a version.
 * @throws AppError `deploy/circle`
 */
export async function enableWithoutCircle<T>(enable: () => Promise<T>): Promise<T> {
  try {
    return await enable();
  } catch (error) {
    if (isCodedError(error) && error.code === 'deploy/circle') throw createCircleError(error.message);
    throw error;
  }
}

function createCircleError(message: string): AppError {
  return new AppError('usage', 'deploy/circle', message, remedyOf('deploy/circle'));
}
