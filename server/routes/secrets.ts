/** Secrets of deployments. No answer contains a value. */
import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi';
import type { AccessUse } from '../../app/access/access-opener.ts';
import {
  listSecrets,
  MOST_SECRET_DEPLOYMENTS,
  PREVIOUS_KEPT_MS,
  removeSecret,
  rotateSecret,
  setSecret,
} from '../../app/secrets/change-secrets.ts';
import { type RekeyedSecrets, encryptAgain } from '../../app/secrets/encrypt-again.ts';
import { findSecretKeyFile } from '../../app/secrets/secret-keys.ts';
import { mayCallerSeeDeployment, requireSecretsOf } from '../../app/access/visible-deployments.ts';
import { getCaller } from '../access/caller.ts';
import type { ApiOptions } from '../api-options.ts';
import { describeJson, PROBLEM } from './answers.ts';

const SecretSchema = z
  .object({
    name: z.string(),
    deployment: z.string().nullable().openapi({ description: 'The deployment that may use it; null: all.' }),
    keyId: z.string().openapi({ description: 'The key that encrypts its value.' }),
    createdAtMs: z.number(),
    changedAtMs: z.number(),
    previousUntilMs: z.number().nullable().openapi({
      description: 'Webhooks accept the value before the last rotation until this time; null: only its value.',
    }),
  })
  .openapi('Secret');

const SecretListSchema = z.object({ secrets: z.array(SecretSchema).readonly() }).openapi('SecretList');

const RekeyedSchema = z
  .object({
    keyId: z.string().nullable().openapi({ description: 'The key of all values now; null: there is no secret.' }),
    changed: z.number().openapi({ description: 'The number of secrets that had another key.' }),
  })
  .openapi('RekeyedSecrets');

const value = z.string().openapi({ description: 'The value: text of 1 to 65,536 bytes as UTF-8. No answer has it.' });
const deployments = z
  .array(z.string())
  .default([])
  .openapi({
    description: `At most ${MOST_SECRET_DEPLOYMENTS} deployments that may use it, each with its own value. Empty: one value for all deployments.`,
  });

const SetBody = z.strictObject({ value, deployments }).openapi('SetSecret');
const RotateBody = z
  .strictObject({
    value,
    deployments,
    keepMs: z.number().int().default(PREVIOUS_KEPT_MS).openapi({
      description: 'How long webhooks accept the value before; at most 7 days.',
    }),
  })
  .openapi('RotateSecret');

const SecretPath = z.object({ name: z.string().openapi({ param: { name: 'name', in: 'path' } }) });
const RemoveQuery = z.strictObject({
  deployments: z.string().optional().openapi({
    description: 'Names of deployments, with commas between them. Absent: the value for all deployments.',
  }),
});

const LIST = createRoute({
  method: 'get',
  path: '/secrets',
  summary: 'Lists secrets by name, without their values',
  responses: { 200: describeJson('All secrets.', SecretListSchema), ...PROBLEM },
});

const SET = createRoute({
  method: 'put',
  path: '/secrets/{name}',
  summary: 'Adds or replaces a secret',
  request: { params: SecretPath, body: { required: true, content: { 'application/json': { schema: SetBody } } } },
  responses: { 200: describeJson('The secrets that were set.', SecretListSchema), ...PROBLEM },
});

const REMOVE = createRoute({
  method: 'delete',
  path: '/secrets/{name}',
  summary: 'Removes a secret',
  request: { params: SecretPath, query: RemoveQuery },
  responses: { 200: describeJson('The secrets that were removed.', SecretListSchema), ...PROBLEM },
});

const ROTATE = createRoute({
  method: 'post',
  path: '/secrets/{name}/rotate',
  summary: 'Replaces a secret; webhooks accept the value before for a time',
  request: { params: SecretPath, body: { required: true, content: { 'application/json': { schema: RotateBody } } } },
  responses: { 200: describeJson('The secrets that were rotated.', SecretListSchema), ...PROBLEM },
});

const REKEY = createRoute({
  method: 'post',
  path: '/secrets/rekey',
  summary: 'Encrypts all secrets with the first key of the key file',
  responses: { 200: describeJson('The key, and how many secrets had another one.', RekeyedSchema), ...PROBLEM },
});

export function addSecretRoutes(routes: OpenAPIHono, { access, machine }: ApiOptions): void {
  const open = async (use: AccessUse = 'find') => ({
    keyFile: findSecretKeyFile(machine.env),
    secrets: (await access(use)).triggers.secrets,
    nowMs: machine.now().getTime(),
  });
  // These need no key file, so that a lost key can be seen and its secrets removed.
  const openKeyless = async () => ({
    secrets: (await access('find')).triggers.secrets,
    nowMs: machine.now().getTime(),
  });
  routes.openapi(LIST, async (context) => {
    const caller = getCaller(context);
    const rows = await listSecrets(await openKeyless());
    const secrets = rows.filter(({ deployment }) => deployment === null || mayCallerSeeDeployment(caller, deployment));
    return context.json({ secrets }, 200);
  });
  routes.openapi(REKEY, async (context) => context.json(await encryptAgain(await open()), 200));
  routes.openapi(SET, async (context) => {
    const target = { ...context.req.valid('param'), ...context.req.valid('json') };
    requireSecretsOf(getCaller(context), target.deployments);
    // Only the owner may make the database.
    const place = await open(getCaller(context).kind === 'owner' ? 'make' : 'find');
    return context.json({ secrets: await setSecret(target, place) }, 200);
  });
  routes.openapi(ROTATE, async (context) => {
    const target = { ...context.req.valid('param'), ...context.req.valid('json') };
    requireSecretsOf(getCaller(context), target.deployments);
    return context.json({ secrets: await rotateSecret(target, await open()) }, 200);
  });
  routes.openapi(REMOVE, async (context) => {
    const { name } = context.req.valid('param');
    const named = context.req.valid('query').deployments;
    const target = { name, deployments: named === undefined ? [] : named.split(',') };
    requireSecretsOf(getCaller(context), target.deployments);
    return context.json({ secrets: await removeSecret(target, await openKeyless()) }, 200);
  });
}

/** The compiler proves here that answers have the fields which the document promises. */
export type PromisedSecrets = [
  Promised<Awaited<ReturnType<typeof listSecrets>>, z.input<typeof SecretListSchema>['secrets']>,
  Promised<RekeyedSecrets, z.input<typeof RekeyedSchema>>,
];

type Promised<Given extends Wanted, Wanted> = [Given, Wanted];
