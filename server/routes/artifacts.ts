import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi';
import { findArtifact, findNamedArtifact, listArtifacts, type OutputsJson } from '../../app/runs/artifacts.ts';
import type { ApiOptions } from '../api-options.ts';
import { answerWithBytes } from '../download.ts';
import { RunPath } from '../schemas.ts';
import { describeJson, PROBLEM } from './answers.ts';
import { readKnownRunId, readSegment } from './run-id.ts';

/** The segments in a path: `/api/v1/runs/ID/artifacts/STAGE/NAME`. */
const [STAGE_SEGMENT, NAME_SEGMENT] = [6, 7];

const ArtifactSchema = z
  .object({
    stage: z.string(),
    name: z.string().nullable().openapi({ description: 'Null: the own output of the stage.' }),
    kind: z.enum(['file', 'folder', 'damaged']),
    partial: z.boolean().openapi({ description: 'The stage did not succeed.' }),
    sizeBytes: z.number(),
    sha256: z.string(),
    mediaType: z.string(),
  })
  .openapi('Artifact');

const ArtifactsSchema = z
  .object({ runId: z.string(), state: z.string(), artifacts: z.array(ArtifactSchema).readonly() })
  .openapi('Artifacts');

/** The compiler proves here that the answer has the fields which the document promises. */
export type PromisedArtifacts = OutputsJson extends z.input<typeof ArtifactsSchema> ? true : never;

function describeText(name: string, description: string): z.ZodString {
  return z.string().openapi({ param: { name, in: 'path' }, description });
}

const StagePath = RunPath.extend({
  stage: describeText('stage', 'The stage as the list names it, percent-encoded; an item is `fixes[1].work`.'),
});
const NamedPath = StagePath.extend({ name: describeText('name', 'The name of the output, percent-encoded.') });
const HashPath = RunPath.extend({ sha256: describeText('sha256', 'The hash of an artifact that the run names.') });

const BYTES = {
  200: {
    description: 'The bytes, as an attachment. A folder is a tar.',
    content: { 'application/octet-stream': { schema: z.string().openapi({ format: 'binary' }) } },
  },
  206: { description: 'The part that `Range` names.' },
  304: { description: 'The hash is the one of `If-None-Match`.' },
  416: { description: '`Range` names no byte.' },
  ...PROBLEM,
};

const LIST = createRoute({
  method: 'get',
  path: '/runs/{runId}/artifacts',
  summary: 'Lists the outputs of a run',
  request: { params: RunPath },
  responses: { 200: describeJson('The outputs.', ArtifactsSchema), ...PROBLEM },
});

const OWN = createRoute({
  method: 'get',
  path: '/runs/{runId}/artifacts/{stage}',
  summary: 'Reads the own output of a stage',
  request: { params: StagePath },
  responses: BYTES,
});

const NAMED = createRoute({
  method: 'get',
  path: '/runs/{runId}/artifacts/{stage}/{name}',
  summary: 'Reads a named output of a stage',
  request: { params: NamedPath },
  responses: BYTES,
});

const DATA = createRoute({
  method: 'get',
  path: '/runs/{runId}/data/{sha256}',
  summary: 'Reads an artifact that an event of the run names, as it is stored',
  request: { params: HashPath },
  responses: BYTES,
});

export function addArtifactRoutes(routes: OpenAPIHono, { machine, limits }: ApiOptions): void {
  routes.openapi(LIST, async (context) =>
    context.json(await listArtifacts(await readKnownRunId(context, machine), machine), 200),
  );
  routes.openapi(OWN, async (context) => {
    const runId = await readKnownRunId(context, machine);
    const stage = readSegment(context, STAGE_SEGMENT, 'the stage');
    const found = await findArtifact(runId, { stage, name: null }, machine);
    return await answerWithBytes(found, { limits, headers: context.req.raw.headers });
  });
  routes.openapi(NAMED, async (context) => {
    const runId = await readKnownRunId(context, machine);
    const stage = readSegment(context, STAGE_SEGMENT, 'the stage');
    const name = readSegment(context, NAME_SEGMENT, 'the name of the output');
    const found = await findArtifact(runId, { stage, name }, machine);
    return await answerWithBytes(found, { limits, headers: context.req.raw.headers });
  });
  routes.openapi(DATA, async (context) => {
    const runId = await readKnownRunId(context, machine);
    const found = await findNamedArtifact(runId, readSegment(context, STAGE_SEGMENT, 'the hash'), machine);
    return await answerWithBytes(found, { limits, headers: context.req.raw.headers });
  });
}
