/** Deployments: specs whose triggers start runs. */
import { createRoute, type OpenAPIHono } from '@hono/zod-openapi';
import type { AccessUse } from '../../app/access/access-opener.ts';
import { deploy } from '../../app/deployments/deploy.ts';
import { createDeploying } from '../../app/deployments/deploying.ts';
import {
  changeDeployment,
  deleteDeployment,
  type DeploymentChange,
  listDeployments,
  showDeployment,
} from '../../app/deployments/manage.ts';
import { createMapping } from '../../domain/units/mapping.ts';
import { getCaller } from '../access/caller.ts';
import type { ApiOptions } from '../api-options.ts';
import {
  DeletedSchema,
  DeployBody,
  DeployedSchema,
  DeploymentListSchema,
  DeploymentPath,
  DeploymentSchema,
  DeploymentsQuery,
  PauseBody,
  RollbackBody,
  ShownDeploymentSchema,
} from '../deployment-schemas.ts';
import { describeJson, PROBLEM } from './answers.ts';
import { readNameCursor, writeNameCursor } from './cursor.ts';

const DEFAULT_LIMIT = 50;

const LIST = createRoute({
  method: 'get',
  path: '/deployments',
  summary: 'Lists deployments by name',
  request: { query: DeploymentsQuery },
  responses: { 200: describeJson('A page of deployments.', DeploymentListSchema), ...PROBLEM },
});

const DEPLOY = createRoute({
  method: 'post',
  path: '/deployments',
  summary: 'Makes a version of a deployment, and enables it',
  request: { body: { required: true, content: { 'application/json': { schema: DeployBody } } } },
  responses: {
    200: describeJson('The enabled version is the same, or the request is a dry run.', DeployedSchema),
    201: describeJson('The new version is enabled.', DeployedSchema),
    ...PROBLEM,
  },
});

const SHOW = createRoute({
  method: 'get',
  path: '/deployments/{deployment}',
  summary: 'Reads a deployment with its versions',
  request: { params: DeploymentPath },
  responses: { 200: describeJson('The deployment.', ShownDeploymentSchema), ...PROBLEM },
});

const PAUSE = createRoute({
  method: 'post',
  path: '/deployments/{deployment}/pause',
  summary: 'Pauses a deployment: its deliveries are held or dropped',
  request: {
    params: DeploymentPath,
    body: { required: true, content: { 'application/json': { schema: PauseBody } } },
  },
  responses: { 200: describeJson('The deployment.', DeploymentSchema), ...PROBLEM },
});

const RESUME = createRoute({
  method: 'post',
  path: '/deployments/{deployment}/resume',
  summary: 'Resumes a deployment; held deliveries start',
  request: { params: DeploymentPath },
  responses: { 200: describeJson('The deployment.', DeploymentSchema), ...PROBLEM },
});

const ROLLBACK = createRoute({
  method: 'post',
  path: '/deployments/{deployment}/rollback',
  summary: 'Enables an earlier version',
  request: {
    params: DeploymentPath,
    body: { required: true, content: { 'application/json': { schema: RollbackBody } } },
  },
  responses: { 200: describeJson('The deployment.', DeploymentSchema), ...PROBLEM },
});

const DELETE = createRoute({
  method: 'delete',
  path: '/deployments/{deployment}',
  summary: 'Deletes a deployment; its runs continue',
  request: { params: DeploymentPath },
  responses: { 200: describeJson('The deployment is deleted.', DeletedSchema), ...PROBLEM },
});

export function addDeploymentRoutes(routes: OpenAPIHono, { access, machine, uploads, ...options }: ApiOptions): void {
  const { deploying = createDeploying(machine.env, access), onDeployed = () => Promise.resolve() } = options;
  const { listQueueStates = () => [] } = options;
  const openTriggers = async (use: AccessUse = 'find') => (await access(use)).triggers;
  const readNowMs = (): number => machine.now().getTime();
  routes.openapi(LIST, async (context) => {
    const { limit = DEFAULT_LIMIT, cursor } = context.req.valid('query');
    const after = cursor === undefined ? undefined : readNameCursor(cursor);
    const page = await listDeployments({ limit, after }, getCaller(context), await openTriggers());
    return context.json({ ...page, next: page.next === null ? null : writeNameCursor(page.next) }, 200);
  });
  routes.openapi(DEPLOY, async (context) => {
    const body = context.req.valid('json');
    const caller = getCaller(context);
    const request = {
      ...body,
      name: body.name ?? null,
      bundles: createMapping(Object.entries(body.bundles)),
      params: createMapping(Object.entries(body.params)),
    };
    // The first deployment makes the database, and only the owner may make it.
    const triggers = await openTriggers(caller.kind === 'owner' ? 'make' : 'find');
    const deployed = await deploy(request, caller, { ...deploying.open(), uploads, triggers }, machine);
    if (!body.isDry) await onDeployed();
    return context.json(deployed, deployed.isNew && !body.isDry ? 201 : 200);
  });
  routes.openapi(SHOW, async (context) => {
    const { deployment } = context.req.valid('param');
    const queues = listQueueStates(deployment);
    return context.json(await showDeployment(deployment, getCaller(context), await openTriggers(), queues), 200);
  });
  const change = async (name: string, what: DeploymentChange, caller: ReturnType<typeof getCaller>) => {
    const changed = await changeDeployment(name, what, caller, { triggers: await openTriggers(), nowMs: readNowMs() });
    await onDeployed();
    return changed;
  };
  routes.openapi(PAUSE, async (context) => {
    const { deliveries } = context.req.valid('json');
    const { deployment } = context.req.valid('param');
    return context.json(await change(deployment, { kind: 'pause', deliveries }, getCaller(context)), 200);
  });
  routes.openapi(RESUME, async (context) => {
    const { deployment } = context.req.valid('param');
    return context.json(await change(deployment, { kind: 'resume' }, getCaller(context)), 200);
  });
  routes.openapi(ROLLBACK, async (context) => {
    const { version = null } = context.req.valid('json');
    const { deployment } = context.req.valid('param');
    return context.json(await change(deployment, { kind: 'rollback', version }, getCaller(context)), 200);
  });
  routes.openapi(DELETE, async (context) => {
    const { deployment } = context.req.valid('param');
    const triggers = await openTriggers();
    await deleteDeployment(deployment, getCaller(context), { triggers, nowMs: readNowMs() });
    await onDeployed();
    return context.json({ name: deployment, isDeleted: true as const }, 200);
  });
}
