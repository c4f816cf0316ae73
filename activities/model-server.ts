/** The server of an agent's model: one that refuses connections fails the stage at once, not after all tries of the command line. */
import { modelTarget, providerServices, writtenServer } from '../domain/agent/provider-hosts.ts';
import type { ErrorCode } from '../domain/errors/codes.ts';
import type { LlmPlan } from '../domain/plan/plan.ts';
import { answeringOf } from '../domain/plan/work.ts';
import type { ToldNotice } from '../domain/run/door-notice.ts';
import { EVENT_ID } from '../domain/run/event-id.ts';
import { sanitizeLine } from '../domain/security/sanitize.ts';
import type { OverBudget } from './run-budget.ts';
import type { Attempt } from './stage-attempt.ts';

/** Before the VM: the command line of the agent never started. */
export class ModelServerFailure extends Error {
  readonly code: ErrorCode = 'agent/api-error';

  constructor(stage: string, words: string) {
    super(sanitizeLine(`the agent of stage ${stage} cannot start: ${words}`));
    this.name = 'ModelServerFailure';
  }
}

/**
 * A server on the worker's own host, which the VM reaches as a service, is looked at before the VM boots. One elsewhere is not:
 * the door of a VM has rules that a worker has not, and a key leaves the host only by the agent itself. An attempt that has begun
 * continues.
 * @throws ModelServerFailure if nothing listens there
 */
export async function demandModelServer({ deps, request, life, backend }: Attempt): Promise<void> {
  const { stage, scope, runId, execKey } = request;
  const agent = answeringOf(stage.work);
  if (agent === null || agent.played === true || backend.name === 'mock' || scope.sandbox.egress === undefined) return;
  const service = providerServices(agent.llm).at(0);
  if (service === undefined || deps.isPortClosed === undefined) return;
  if ((await deps.events.find(runId, EVENT_ID.attempt(execKey, 'started'))) !== null) return;
  if (await deps.isPortClosed(service.port, life.ended)) throw new ModelServerFailure(stage.id, refusedBy(agent.llm));
}

function refusedBy(llm: LlmPlan | null): string {
  const server = writtenServer(llm) ?? '';
  const remedy = llm?.baseUrl ? 'or correct `base_url`' : 'or set `base_url` in `llm`';
  return `the model's server ${server} refused the connection: start it, ${remedy}`;
}

/** The door could not connect to the model's server after a moment, because that refused. Null: the notice says something else. */
export function modelRefusal(llm: LlmPlan | null, sinceMs: number, { notice, atMs }: ToldNotice): OverBudget | null {
  const target = modelTarget(llm);
  if (target === null || notice.kind !== 'refused' || notice.cause !== 'failed') return null;
  if (atMs === null || atMs < sinceMs || !/connection refused/i.test(notice.reason)) return null;
  const isMeant = 'service' in target ? notice.service === target.service : notice.host?.toLowerCase() === target.host;
  if (!isMeant || (notice.port !== undefined && notice.port !== target.port)) return null;
  return { code: 'agent/api-error', words: `was stopped: ${refusedBy(llm)}` };
}
