import type { ErrorCodeInfo } from './code-info.ts';

/** Codes of deployments. No stage ends with one. Part of `ERROR_CODES`. */
export const DEPLOY_CODES = {
  'deploy/no-version': defineDeployCode(
    'The deployment has no version with this number, or none before the enabled one.',
    'List its versions with `voidbox deployment show NAME`.',
  ),
  'deploy/circle': defineDeployCode(
    'Deployments would follow each other in a circle: each run would start the next one without an end.',
    'Remove `run` from one of the triggers that the message names. `voidbox deployment show NAME` lists them.',
  ),
  'deploy/no-upstream': defineDeployCode(
    'A trigger follows runs of a deployment that does not exist: it waits for nothing until the deployment is made.',
    'Correct `of`, or make the other deployment: voidbox deploy FILE --name NAME',
  ),
  'deploy/secret-missing': defineDeployCode(
    'The spec or its triggers name secrets that the deployment may not use, or that do not exist.',
    'Set each of them: voidbox secret set NAME --deployment DEPLOYMENT',
  ),
  'deploy/secrets-elsewhere': defineDeployCode(
    'A process without the secrets of a deployment was to start a run that repeats one of the deployment.',
    'Retry the run through the service of the deployment, or replay its delivery: voidbox delivery replay ID',
  ),
  'deploy/source-not-allowed': defineDeployCode(
    'A trigger of the spec reads a folder, a database or a queue that the operator of the service has not allowed.',
    'The operator allows it on the machine of the service: `voidbox up --allow-watch FOLDER`, `--allow-outbox HOST:PORT` or `--allow-queue HOST:PORT`.',
  ),
  'deploy/too-costly': defineDeployCode(
    'The spec could not be compiled within the limits: 20 seconds, 256 MiB of memory and 120 seconds of CPU.',
    'Make the spec smaller, or split it. The parameters of a delivery count too.',
  ),
} as const satisfies Record<string, ErrorCodeInfo>;

function defineDeployCode(
  summary: string,
  remedy: string,
): ErrorCodeInfo & { readonly kind: 'request'; readonly retry: 'never' } {
  return { kind: 'request', retry: 'never', summary, remedy };
}
