/** The API of Void-Box's daemon, below `/v1`: clients that were written for Void-Box use it unchanged. */
import { Hono } from 'hono';
import type { MessageTools } from '../../app/void-box/messages.ts';
import { createStarts } from '../../app/void-box/start.ts';
import type { ApiOptions } from '../api-options.ts';
import { addArtifactRoutes } from './artifact-routes.ts';
import { addRunRoutes } from './run-routes.ts';
import { addSessionRoutes } from './session-routes.ts';

export const VOID_BOX_ROOT = '/v1';

export function createVoidBoxRoutes(options: ApiOptions & Pick<MessageTools, 'messages'>): Hono {
  const { machine, messages, readSpecRoot = () => null, limits, log } = options;
  const routes = new Hono();
  const starts = createStarts({ machine, readSpecRoot, log });
  const tools = { machine, starts, limits, log };
  routes.get('/health', (context) => context.json({ status: 'ok', persistence: 'disk' }));
  addRunRoutes(routes, tools);
  addArtifactRoutes(routes, tools);
  addSessionRoutes(routes, { machine, messages });
  return routes;
}
