/** The deployments that a caller may see: those whose runs it may see. */
import { nameRun } from '../../domain/delivery/deployment-name.ts';
import { AppError } from '../app-error.ts';
import type { Caller } from './authenticate.ts';
import { mayCallerSee } from './visible-runs.ts';

/** Ids of deliveries have these characters; a pattern of a token that matches this one matches each of them. */
const ANY_DELIVERY = '0'.repeat(26);

export function mayCallerSeeDeployment(caller: Caller, name: string): boolean {
  return mayCallerSee(caller, nameRun(name, ANY_DELIVERY));
}

/** @throws AppError `api/not-allowed` */
export function requireDeployment(caller: Caller, name: string): void {
  if (mayCallerSeeDeployment(caller, name)) return;
  const token = caller.kind === 'token' ? caller.token.name : '';
  throw new AppError(
    'usage',
    'api/not-allowed',
    `the token ${token} may not see the runs of the deployment ${name}`,
    'Use a token whose --runs pattern matches the ids of its runs, such as NAME-*.',
  );
}

/**
 * @param deployments  those whose secrets a caller changes; empty: the value for all
 * @throws AppError `api/not-allowed`
 */
export function requireSecretsOf(caller: Caller, deployments: readonly string[]): void {
  for (const name of deployments) requireDeployment(caller, name);
  if (deployments.length > 0 || caller.kind === 'owner' || caller.token.runs.length === 0) return;
  throw new AppError(
    'usage',
    'api/not-allowed',
    `the token ${caller.token.name} may not see every run, and a secret for all deployments may be in each`,
    'Name the deployments of the secret, or use a token without --runs.',
  );
}
