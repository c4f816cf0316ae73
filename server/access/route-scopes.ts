/** The scope of each route. A token may use no route without a row. */
import type { Scope } from '../../domain/access/scopes.ts';

/** `public`: a request over TCP needs no token. */
export type RouteAccess = Scope | 'public';

const HOOK_PATH = '/hooks/:deployment/:name';
const APPROVAL_PATH = '/approvals/:link';

const ROUTE_ACCESS: ReadonlyMap<string, RouteAccess> = new Map<string, RouteAccess>([
  ['GET /api/v1/health', 'public'],
  // Its request proves its sender.
  [`POST ${HOOK_PATH}`, 'public'],
  // The link is its proof.
  [`GET ${APPROVAL_PATH}`, 'public'],
  [`POST ${APPROVAL_PATH}`, 'public'],
  ['GET /openapi.json', 'read'],
  ['GET /api/v1/version', 'read'],
  ['GET /api/v1/runs', 'read'],
  ['GET /api/v1/runs/:runId', 'read'],
  ['GET /api/v1/runs/:runId/events', 'read'],
  ['GET /api/v1/runs/:runId/logs', 'read'],
  ['GET /api/v1/runs/:runId/stages', 'read'],
  ['GET /api/v1/runs/:runId/result', 'read'],
  ['GET /api/v1/runs/:runId/artifacts', 'read'],
  ['GET /api/v1/runs/:runId/artifacts/:stage', 'read'],
  ['GET /api/v1/runs/:runId/artifacts/:stage/:name', 'read'],
  ['GET /api/v1/runs/:runId/data/:sha256', 'read'],
  ['GET /api/v1/runs/:runId/records/:record', 'read'],
  ['GET /api/v1/ready', 'read'],
  ['GET /api/v1/questions', 'read'],
  ['GET /api/v1/vms', 'read'],
  ['DELETE /api/v1/vms/:runId/:stage', 'run'],
  ['GET /api/v1/run-ids', 'read'],
  ['GET /api/v1/run-index', 'read'],
  ['POST /api/v1/runs', 'run'],
  ['POST /api/v1/runs/actions', 'run'],
  ['POST /api/v1/runs/:runId/cancel', 'run'],
  ['POST /api/v1/runs/:runId/retry', 'run'],
  ['POST /api/v1/runs/:runId/fork', 'run'],
  ['GET /api/v1/blobs/:sha256', 'run'],
  ['PUT /api/v1/blobs/:sha256', 'run'],
  ['POST /api/v1/runs/:runId/answer', 'approve'],
  // Its caller could answer with the link under the name of another person.
  ['POST /api/v1/runs/:runId/approval-links', 'admin'],
  ['GET /api/v1/sessions', 'read'],
  // The code of a step machine runs on the host, with more than a run of a token gets there.
  ['POST /api/v1/sessions', 'admin'],
  ['GET /api/v1/sessions/:session', 'read'],
  ['GET /api/v1/sessions/:session/history', 'read'],
  // It sends an update, of which a session takes only some.
  ['GET /api/v1/sessions/:session/result', 'run'],
  ['POST /api/v1/sessions/:session/advance', 'run'],
  ['POST /api/v1/sessions/:session/cancel', 'run'],
  ['POST /api/v1/deployments/:deployment/runs', 'run'],
  // The service signs with a secret of the deployment, so its caller can say anything that the sender could.
  ['POST /api/v1/deployments/:deployment/triggers/:trigger/send', 'admin'],
  ['GET /api/v1/schedules', 'read'],
  ['GET /api/v1/deployments/:deployment/schedules/:trigger', 'read'],
  ['POST /api/v1/deployments/:deployment/schedules/:trigger/trigger', 'run'],
  ['POST /api/v1/deployments/:deployment/schedules/:trigger/backfill', 'run'],
  ['POST /api/v1/deployments/:deployment/schedules/:trigger/pause', 'admin'],
  ['POST /api/v1/deployments/:deployment/schedules/:trigger/resume', 'admin'],
  // The route itself refuses every token.
  ['POST /api/v1/deployments/:deployment/schedules/:trigger/times', 'admin'],
  ['GET /api/v1/tokens', 'admin'],
  ['POST /api/v1/tokens', 'admin'],
  ['POST /api/v1/tokens/:name/revoke', 'admin'],
  ['GET /api/v1/secrets', 'admin'],
  ['POST /api/v1/secrets/rekey', 'admin'],
  ['PUT /api/v1/secrets/:name', 'admin'],
  ['DELETE /api/v1/secrets/:name', 'admin'],
  ['POST /api/v1/secrets/:name/rotate', 'admin'],
  ['GET /api/v1/audit', 'admin'],
  ['GET /api/v1/deliveries', 'read'],
  ['GET /api/v1/deliveries/:delivery', 'read'],
  ['POST /api/v1/deliveries/replay', 'run'],
  ['POST /api/v1/deployments/:deployment/triggers/:trigger/explain', 'run'],
  ['GET /api/v1/notifications', 'read'],
  ['GET /api/v1/notifications/:notification', 'read'],
  ['POST /api/v1/notifications/replay', 'run'],
  ['GET /api/v1/deployments', 'read'],
  ['GET /api/v1/deployments/:deployment', 'read'],
  // Its runs get secrets, and start without a person.
  ['POST /api/v1/deployments', 'admin'],
  ['POST /api/v1/deployments/:deployment/pause', 'admin'],
  ['POST /api/v1/deployments/:deployment/resume', 'admin'],
  ['POST /api/v1/deployments/:deployment/rollback', 'admin'],
  ['DELETE /api/v1/deployments/:deployment', 'admin'],
  ['GET /v1/health', 'public'],
  ['GET /v1/runs', 'read'],
  ['POST /v1/runs', 'run'],
  ['GET /v1/runs/:runId', 'read'],
  ['GET /v1/runs/:runId/events', 'read'],
  ['POST /v1/runs/:runId/cancel', 'run'],
  ['GET /v1/runs/:runId/stages', 'read'],
  ['GET /v1/runs/:runId/telemetry', 'read'],
  ['GET /v1/runs/:runId/stages/:stage/output-file', 'read'],
  ['GET /v1/runs/:runId/stages/:stage/artifacts/:name', 'read'],
  ['PUT /v1/runs/:runId/inbox', 'run'],
  ['GET /v1/runs/:runId/intents', 'run'],
  ['POST /v1/runs/:runId/messages', 'run'],
  ['GET /v1/sessions/:sessionId/messages', 'read'],
  ['POST /v1/sessions/:sessionId/messages', 'run'],
]);

/**
 * @param path  the pattern of the route
 * @returns null for a route without a row
 */
export function findRouteAccess(method: string, path: string): RouteAccess | null {
  // Another method gets its answer without a token, too.
  if (path === HOOK_PATH || path === APPROVAL_PATH) return 'public';
  const known = ROUTE_ACCESS.get(`${method} ${path}`);
  // A HEAD request has the answer of GET, without its body.
  return known ?? (method === 'HEAD' ? ROUTE_ACCESS.get(`GET ${path}`) : undefined) ?? null;
}

export function listRouteAccess(): ReadonlyMap<string, RouteAccess> {
  return ROUTE_ACCESS;
}
