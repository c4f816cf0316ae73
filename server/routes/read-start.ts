import type { z } from '@hono/zod-openapi';
import type { ClientRequest } from '../../app/start/start-upload.ts';
import { createMapping } from '../../domain/units/mapping.ts';
import type { StartBody } from '../schemas.ts';

type SharedBody = Omit<z.infer<typeof StartBody>, 'mock' | 'mockAgents'>;

/** Reads what starts and forks share. The keys of its mappings are texts of the client. */
export function readStart(body: SharedBody): Omit<ClientRequest, 'mock' | 'mockAgents'> {
  const { spec = null, plan, baseDir = null, input = null, runId = null, allowMounts, allowGit } = body;
  return {
    spec,
    plan,
    baseDir,
    uploads: createMapping(Object.entries(body.uploads)),
    bundles: createMapping(Object.entries(body.bundles)),
    allowMounts,
    allowGit,
    params: createMapping(Object.entries(body.params)),
    variables: createMapping(Object.entries(body.variables)),
    input,
    runId,
  };
}
