/** The routes of Void-Box's API about results and artifacts of stages. */
import type { Hono } from 'hono';
import { findOutputFile, findStageArtifact, type FoundFile } from '../../app/void-box/artifacts.ts';
import { findStatus } from '../../app/void-box/run-state.ts';
import { answerWithBytes } from '../download.ts';
import type { ApiLimits } from '../limits.ts';
import { VoidBoxError } from './errors.ts';
import { findRequestedRun, readArtifactName, readStage, type Tools } from './request.ts';

const ACTIVE: ReadonlySet<string> = new Set(['pending', 'starting', 'running']);

export function addArtifactRoutes(routes: Hono, options: Tools & { readonly limits: ApiLimits }): void {
  const { machine, limits } = options;
  routes.get('/runs/:runId/stages/:stage/output-file', async (context) => {
    const found = await findRequestedRun(context, options);
    const stage = readStage(context);
    const file = await findOutputFile(found, stage, machine);
    if (file !== null) return await answerWithFile(file, 'result.json', limits);
    const message = `stage '${stage}' completed without result.json for run '${found.runId}'`;
    throw new VoidBoxError(404, 'STRUCTURED_OUTPUT_MISSING', 'api/no-artifact', message);
  });
  routes.get('/runs/:runId/stages/:stage/artifacts/:name', async (context) => {
    const found = await findRequestedRun(context, options);
    const [stage, name] = [readStage(context), readArtifactName(context)];
    const file = await findStageArtifact(found, { stage, name }, machine);
    if (file !== null) return await answerWithFile(file, name, limits);
    if (ACTIVE.has(findStatus(found, null)))
      throw new VoidBoxError(
        409,
        'ARTIFACT_PUBLICATION_INCOMPLETE',
        'api/no-artifact',
        `artifact publication in progress for run '${found.runId}'`,
      );
    const message = `artifact '${name}' not found for run '${found.runId}' stage '${stage}'`;
    throw new VoidBoxError(404, 'ARTIFACT_NOT_FOUND', 'api/no-artifact', message);
  });
}

/** An attachment, which no browser shows. */
async function answerWithFile(file: FoundFile, fileName: string, limits: ApiLimits): Promise<Response> {
  const { ref, sizeBytes, mediaType, open } = file;
  const bytes = { sha256: ref.sha256, sizeBytes, fileName, isMember: sizeBytes !== ref.sizeBytes, open };
  const answer = await answerWithBytes(bytes, { limits, headers: new Headers() });
  answer.headers.set('content-type', mediaType);
  return answer;
}
