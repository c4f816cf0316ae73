/** Uploads: bytes by their hash, which a start names. */
import { createRoute, type OpenAPIHono } from '@hono/zod-openapi';
import type { ApiOptions } from '../api-options.ts';
import { createRequestError } from '../problems.ts';
import { BlobPath, BlobSchema } from '../schemas.ts';
import { readUpload } from '../upload-body.ts';
import { describeJson, PROBLEM } from './answers.ts';

const FACTS = createRoute({
  method: 'get',
  path: '/blobs/{sha256}',
  summary: 'Says whether an upload is here, also as HEAD',
  request: { params: BlobPath },
  responses: { 200: describeJson('The upload is here for another 24 hours.', BlobSchema), ...PROBLEM },
});

const PUT = createRoute({
  method: 'put',
  path: '/blobs/{sha256}',
  summary: 'Uploads bytes, such as a tar of a mounted folder',
  request: {
    params: BlobPath,
    body: {
      required: true,
      content: { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } },
    },
  },
  responses: { 201: describeJson('All bytes are stored.', BlobSchema), ...PROBLEM },
});

export function addBlobRoutes(routes: OpenAPIHono, { uploads, limits }: ApiOptions): void {
  routes.openapi(FACTS, async (context) => {
    const { sha256 } = context.req.valid('param');
    const found = await uploads.find(sha256);
    if (found === null) throw createRequestError('api/no-blob', `there is no upload ${sha256}`);
    return context.json(found, 200);
  });
  routes.openapi(PUT, async (context) => {
    const { sha256 } = context.req.valid('param');
    const announced = context.req.header('content-length');
    const bytes = readUpload(context.req.raw.body, limits.uploadPauseMs);
    const stored = await uploads.put(sha256, bytes, announced === undefined ? null : Number(announced));
    return context.json(stored, 201);
  });
}
