/** The routes of Void-Box's API about runs. */
import type { Hono } from 'hono';
import { limitToVisible } from '../../app/access/visible-runs.ts';
import { cancelRun } from '../../app/void-box/cancel.ts';
import { listVisible } from '../../app/void-box/list.ts';
import { readEvents, readRunState } from '../../app/void-box/read-run.ts';
import { findStatus, toStages } from '../../app/void-box/run-state.ts';
import { readTelemetry } from '../../app/void-box/telemetry.ts';
import type { VoidBoxEvent } from '../../domain/void-box/event.ts';
import { findPolicyProblem, pickPolicy } from '../../domain/void-box/policy.ts';
import { createMapping } from '../../domain/units/mapping.ts';
import { getCaller } from '../access/caller.ts';
import type { ApiLimits } from '../limits.ts';
import { readRunId } from '../routes/run-id.ts';
import { createInvalidError, VoidBoxError } from './errors.ts';
import { answerWithTexts } from './json-list.ts';
import { findRequestedRun, readBody, readVersion, type Tools } from './request.ts';
import { CancelBody, CreateRunBody } from './schemas.ts';

/** Clients of Void-Box wait for 60 s. */
const CANCEL_WAIT_MS = 50_000;
const ATTEMPT = 1;

export interface RunRouteOptions extends Tools {
  readonly limits: ApiLimits;
  readonly log: (line: string) => void;
}

export function addRunRoutes(routes: Hono, options: RunRouteOptions): void {
  const { machine, starts, limits, log } = options;
  routes.get('/runs', async (context) => {
    const wanted = context.req.query('state');
    const filter = wanted === 'active' || wanted === 'terminal' ? wanted : null;
    const caller = getCaller(context);
    const runs = await listVisible(filter, caller, await starts.listUnderWay(), limitToVisible(machine, caller));
    return context.json({ runs });
  });
  routes.get('/runs/:runId', async (context) => {
    const found = await findRequestedRun(context, options);
    return context.json(await readRunState(found, readVersion(context), machine));
  });
  routes.get('/runs/:runId/events', async (context) => {
    const found = await findRequestedRun(context, options);
    const wanted = { after: context.req.query('from_event_id') ?? null, version: readVersion(context) };
    return await answerWithTexts(toTexts(readEvents(found, wanted, machine)), limits);
  });
  routes.post('/runs/:runId/cancel', async (context) => {
    const { reason = null } = await readBody(context, CancelBody, 'INVALID_PARAMS');
    const request = { reason, waitMs: CANCEL_WAIT_MS, signal: context.req.raw.signal, log };
    const { id, status, terminal_event_id: terminal } = await cancelRun(readRunId(context), request, options);
    return context.json({ run_id: id, state: status, terminal_event_id: terminal });
  });
  routes.get('/runs/:runId/stages', async (context) => {
    const found = await findRequestedRun(context, options);
    const { updated_at: updatedAt } = await readRunState(found, 'v1', machine);
    const stages = found.place.kind === 'stored' ? toStages(found.place.view) : [];
    return context.json({ run_id: found.runId, attempt_id: ATTEMPT, updated_at: updatedAt, stages });
  });
  routes.get('/runs/:runId/telemetry', async (context) => {
    const fromSeq = readSequence(context.req.query('from_seq'));
    const found = await findRequestedRun(context, options);
    const wanted = { fromSeq, stage: context.req.query('stage_name') ?? null };
    const { samples, nextSeq } =
      found.place.kind === 'stored'
        ? await readTelemetry(found.runId, wanted, machine)
        : { samples: [], nextSeq: fromSeq };
    return context.json({ run_id: found.runId, attempt_id: ATTEMPT, next_seq: nextSeq, samples });
  });
  addStartRoute(routes, options);
  addSidecarRoutes(routes, options);
}

function addStartRoute(routes: Hono, { starts }: RunRouteOptions): void {
  routes.post('/runs', async (context) => {
    const body = await readBody(context, CreateRunBody, 'INVALID_SPEC');
    const { file, input = null, run_id: runId = null, policy: fields = null, snapshot, variables } = body;
    const policy = fields === null ? null : pickPolicy(fields);
    const problem = policy === null ? null : findPolicyProblem(policy);
    if (problem !== null) throw createInvalidError('INVALID_POLICY', problem);
    if (snapshot !== undefined && snapshot !== null && snapshot !== '')
      throw createInvalidError(
        'INVALID_SPEC',
        '`snapshot`: a start names no snapshot here, because VMs start from snapshots without it; for a prepared sandbox write `snapshot: NAME` in the `sandbox` of the spec',
      );
    const request = { file, input, runId, policy, variables: createMapping(Object.entries(variables ?? {})) };
    const started = await starts.start({ ...request, caller: getCaller(context) });
    const state = started.existing === null ? 'running' : findStatus(started.existing, null);
    context.header('location', `/v1/runs/${encodeURIComponent(started.runId)}`);
    return context.json({ run_id: started.runId, attempt_id: ATTEMPT, state });
  });
}

/** No run has a sidecar yet. */
function addSidecarRoutes(routes: Hono, options: RunRouteOptions): void {
  for (const [method, path] of [
    ['PUT', '/runs/:runId/inbox'],
    ['GET', '/runs/:runId/intents'],
    ['POST', '/runs/:runId/messages'],
  ] as const)
    routes.on(method, path, async (context) => {
      const { runId } = await findRequestedRun(context, options);
      throw new VoidBoxError(404, 'NOT_FOUND', 'api/no-run', `no sidecar for run '${runId}'`);
    });
}

function readSequence(text: string | undefined): number {
  if (text === undefined) return 0;
  if (!/^\d{1,15}$/.test(text))
    throw createInvalidError('INVALID_PARAMS', `from_seq must be a non-negative integer, got '${text.slice(0, 100)}'`);
  return Number(text);
}

async function* toTexts(events: AsyncIterable<VoidBoxEvent>): AsyncGenerator<string> {
  let isFirst = true;
  for await (const event of events) {
    yield `${isFirst ? '[' : ','}${JSON.stringify(event)}`;
    isFirst = false;
  }
  yield isFirst ? '[]' : ']';
}
