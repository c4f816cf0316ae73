import { createRoute, type OpenAPIHono } from '@hono/zod-openapi';
import type { ApiOptions } from '../api-options.ts';
import { HealthSchema, VersionSchema } from '../schemas.ts';
import { describeJson, PROBLEM } from './answers.ts';

const HEALTH = createRoute({
  method: 'get',
  path: '/health',
  summary: 'Answers while the API accepts requests',
  responses: { 200: describeJson('The API accepts requests.', HealthSchema), ...PROBLEM },
});

const VERSION = createRoute({
  method: 'get',
  path: '/version',
  summary: 'The version of Voidbox',
  responses: { 200: describeJson('The version.', VersionSchema), ...PROBLEM },
});

export function addInfoRoutes(routes: OpenAPIHono, { version }: ApiOptions): void {
  routes.openapi(HEALTH, (context) => context.json({ status: 'ok' as const }, 200));
  routes.openapi(VERSION, (context) => context.json({ version, api: 'v1' as const }, 200));
}
