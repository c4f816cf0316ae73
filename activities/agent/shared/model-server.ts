/**
 * The server of an agent's model. A server that refuses connections fails the stage at once, before the command line
 * retries.
 */
import { modelTarget, listProviderServices, selectServer } from '../../../domain/agent/provider-hosts.ts';
import type { OverBudget } from '../../../domain/agent/limits.ts';
import type { LlmPlan } from '../../../domain/plan/plan.ts';
import { answeringOf } from '../../../domain/plan/work.ts';
import type { ToldNotice } from '../../../domain/run/door-notice.ts';
import { EVENT_ID } from '../../../domain/run/event-id.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import type { StageRequest } from '../../calls/requests.ts';
import type { ActivityDeps } from '../../deps.ts';
import type { AttemptLife } from '../../heartbeat.ts';
import { StartFailure } from '../../attempt/start-failure.ts';

/** Thrown before the VM boots: the command line of the agent never started. */
export class ModelServerFailure extends StartFailure {
  constructor(stage: string, words: string) {
    super('agent/api-error', sanitizeLine(`the agent of stage ${stage} cannot start: ${words}`));
  }
}

export interface ServerDemand {
  readonly deps: Pick<ActivityDeps, 'events' | 'isPortClosed'>;
  readonly request: StageRequest;
  readonly life: Pick<AttemptLife, 'ended'>;
  readonly backend: { readonly name: string };
}

/**
 * Probes a server on the worker's own host, which the VM reaches as a service, before the VM boots. Servers elsewhere
 * are not probed, because the rules of a VM's door do not apply to a worker. Also, only the agent itself may send a
 * key. An attempt that has begun continues.
 * @throws ModelServerFailure if no server listens there
 */
export async function requireModelServer({ deps, request, life, backend }: ServerDemand): Promise<void> {
  const { stage, scope, runId, execKey } = request;
  const agent = answeringOf(stage.work);
  if (agent === null || agent.played === true || backend.name === 'mock' || scope.sandbox.egress === undefined) return;
  const service = listProviderServices(agent.llm).at(0);
  if (service === undefined || deps.isPortClosed === undefined) return;
  if ((await deps.events.find(runId, EVENT_ID.attempt(execKey, 'started'))) !== null) return;
  if (await deps.isPortClosed(service.port, life.ended))
    throw new ModelServerFailure(stage.id, describeRefusal(agent.llm));
}

function describeRefusal(llm: LlmPlan | null): string {
  const server = selectServer(llm) ?? '';
  const remedy = llm?.baseUrl ? 'or correct `base_url`' : 'or set `base_url` in `llm`';
  return `the model's server ${server} refused the connection: start it, ${remedy}`;
}

/**
 * Returns the failure if the notice reports, after `sinceMs`, that the model's server refused a connection. Returns
 * null for other notices.
 */
export function modelRefusal(llm: LlmPlan | null, sinceMs: number, { notice, atMs }: ToldNotice): OverBudget | null {
  const target = modelTarget(llm);
  if (target === null || notice.kind !== 'refused' || notice.cause !== 'failed') return null;
  if (atMs === null || atMs < sinceMs || !/connection refused/i.test(notice.reason)) return null;
  const isMeant = 'service' in target ? notice.service === target.service : notice.host?.toLowerCase() === target.host;
  if (!isMeant || (notice.port !== undefined && notice.port !== target.port)) return null;
  return { code: 'agent/api-error', words: `was stopped: ${describeRefusal(llm)}` };
}
