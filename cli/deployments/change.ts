/** Sends a change of a deployment to the service, and prints the deployment. */
import { askTokenService } from '../../app/access/token-service.ts';
import type { DeploymentJson } from '../../app/deployments/manage.ts';
import type { CliContext } from '../context.ts';
import { EXIT, type ExitCode } from '../exit-code.ts';
import { parseDeployment } from './answers.ts';

export interface SentChange {
  readonly name: string;
  /** The last part of the path. */
  readonly verb: 'pause' | 'resume' | 'rollback';
  readonly body: Readonly<Record<string, unknown>>;
  readonly isJson: boolean;
  /** Returns the line for people. */
  readonly describe: (deployment: DeploymentJson) => string;
}

/** @returns the exit code */
export async function changeDeployment(change: SentChange, context: CliContext): Promise<ExitCode> {
  const { name, verb, body, isJson, describe } = change;
  const onProgress = (line: string): void => void context.stderr.write(`==> ${line}\n`);
  const path = ['deployments', name, verb];
  const answer = await askTokenService(context, { method: 'POST', path, body: { json: body }, onProgress });
  const deployment = parseDeployment(answer);
  await context.stdout.write(`${isJson ? JSON.stringify(deployment) : describe(deployment)}\n`);
  return EXIT.success;
}
