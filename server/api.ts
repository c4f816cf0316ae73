/** The HTTP API: its routes, the checks around them, and its OpenAPI document. */
import { OpenAPIHono } from '@hono/zod-openapi';
import type { HonoRequest, MiddlewareHandler } from 'hono';
import { isOwner } from './access/caller.ts';
import { createAccessCheck } from './access/check-access.ts';
import { createUnprovenRequests } from './access/unproven-requests.ts';
import { TooManyRequests } from './access/too-many-requests.ts';
import { HookBusy } from './hook-body.ts';
import type { ApiOptions } from './api-options.ts';
import { addApprovalPages } from './approvals/approval-routes.ts';
import { hideFolders } from './hide-folders.ts';
import { checkBody } from './json-body.ts';
import { createProblem, createRequestError, type Problem, toProblem, toProblemResponse } from './problems.ts';
import { addActionsRoute } from './routes/actions.ts';
import { addAnswerRoute } from './routes/answer.ts';
import { addApprovalLinkRoute } from './routes/approval-links.ts';
import { addArtifactRoutes } from './routes/artifacts.ts';
import { addDeploymentRoutes } from './routes/deployments.ts';
import { addBlobRoutes } from './routes/blobs.ts';
import { addDeliveryRoutes } from './routes/deliveries.ts';
import { addEventRoutes } from './routes/events.ts';
import { addInfoRoutes } from './routes/info.ts';
import { addNotificationRoutes } from './routes/notifications/routes.ts';
import { addOpenWorkRoutes } from './routes/open-work.ts';
import { addHookRoutes } from './routes/hooks.ts';
import { addExplainRoute } from './routes/explain.ts';
import { addForkRoute } from './routes/fork.ts';
import { addRetryRoute } from './routes/retry.ts';
import { addScheduleRoutes } from './routes/schedules.ts';
import { addSecretRoutes } from './routes/secrets.ts';
import { addSessionRoutes } from './routes/sessions.ts';
import { addRunRoutes } from './routes/runs.ts';
import { addStartRoute } from './routes/start.ts';
import { addStoredRoutes } from './routes/stored.ts';
import { addTriggerRoutes } from './routes/trigger.ts';
import { addTokenRoutes } from './routes/tokens.ts';
import { openSessionMessages } from '../store/open-messages.ts';
import { isVoidBoxPath, toVoidBoxResponse } from './void-box/errors.ts';
import { createVoidBoxRoutes, VOID_BOX_ROOT } from './void-box/routes.ts';

export type Api = OpenAPIHono;

const ROOT = '/api/v1';

export function createApi(options: ApiOptions): Api {
  const { version, limits, machine, access, daemon = null, messages = openSessionMessages(machine.env), log } = options;
  const api: Api = new OpenAPIHono({
    defaultHook: (result) => {
      if (result.success) return;
      const [issue] = result.error.issues;
      const place = issue?.path.join('.') ?? '';
      const where = place === '' ? `the ${result.target} of the request` : `\`${place}\``;
      throw createRequestError('api/invalid-request', `${where}: ${issue?.message ?? 'it is not valid'}`);
    },
  });
  api.use(async (context, next) => {
    await next();
    context.header('cache-control', 'no-store');
    context.header('x-content-type-options', 'nosniff');
  });
  api.use(endUnreadBody);
  // Before the body is read: a stranger sends no 4 MiB.
  api.use(
    createAccessCheck({
      access,
      daemon,
      nowMs: () => machine.now().getTime(),
      requestsPerSecond: limits.requestsPerSecond,
      checkTokensEveryMs: limits.checkTokensEveryMs,
      log,
    }),
  );
  api.use(checkBody(limits));
  const folders = { ...machine.env, home: machine.env.variables['HOME'] ?? null };
  api.onError(async (error, context) => {
    const { req } = context;
    const known = await toProblem(error);
    if (known === null) log(`${req.method} ${req.routePath}: ${error.stack ?? error.message}`);
    const problem = known ?? createProblem('api/bug', 'this is a bug in voidbox');
    return answerWithProblem(error, isOwner(context) ? problem : hideFolders(problem, folders), req);
  });
  api.notFound(({ req }) =>
    answerWithProblem(null, createProblem('api/no-route', `there is no route ${req.method} ${req.path}`), req),
  );
  const routes = new OpenAPIHono({ defaultHook: api.defaultHook! });
  addInfoRoutes(routes, options);
  addStartRoute(routes, options);
  addBlobRoutes(routes, options);
  addRunRoutes(routes, options);
  addEventRoutes(routes, options);
  addArtifactRoutes(routes, options);
  addStoredRoutes(routes, options);
  addActionsRoute(routes, options);
  addForkRoute(routes, options);
  addRetryRoute(routes, options);
  addAnswerRoute(routes, options);
  addApprovalLinkRoute(routes, options);
  addOpenWorkRoutes(routes, options);
  addSessionRoutes(routes, options);
  addScheduleRoutes(routes, options);
  addSecretRoutes(routes, options);
  addTokenRoutes(routes, options);
  addTriggerRoutes(routes, options);
  addDeliveryRoutes(routes, options);
  addNotificationRoutes(routes, options);
  addExplainRoute(routes, options);
  addDeploymentRoutes(routes, options);
  api.route(ROOT, routes);
  const unproven = createUnprovenRequests({
    perSecond: limits.unprovenPerSecond,
    nowMs: () => machine.now().getTime(),
  });
  addHookRoutes(api, options, unproven);
  addApprovalPages(api, options, unproven);
  api.route(VOID_BOX_ROOT, createVoidBoxRoutes({ ...options, messages }));
  api.doc31('/openapi.json', {
    openapi: '3.1.0',
    info: { title: 'Voidbox', version, description: 'Starts, follows and cancels runs of this state folder.' },
  });
  return api;
}

function answerWithProblem(error: unknown, problem: Problem, { method, path }: HonoRequest): Response {
  const headers = describeRefusal(error, problem);
  return isVoidBoxPath(path)
    ? toVoidBoxResponse(error, problem, { method, path, headers })
    : toProblemResponse(problem, headers);
}

/** The answer to HEAD has no body, so nothing would read the body of GET to its end, or close its file. */
const endUnreadBody: MiddlewareHandler = async (context, next) => {
  await next();
  if (context.req.method === 'HEAD') await context.res.body?.cancel();
};

/** Returns the headers that tell a client how to repeat its request. */
function describeRefusal(error: unknown, { status, code }: Problem): Readonly<Record<string, string>> {
  if (error instanceof TooManyRequests || error instanceof HookBusy)
    return { 'retry-after': String(error.retryAfterSeconds) };
  if (code === 'api/not-admitted') return { 'retry-after': '1' };
  const scheme = code === 'api/hook-unproven' ? 'Webhook' : 'Bearer';
  return status === 401 ? { 'www-authenticate': `${scheme} realm="voidbox"` } : {};
}
