/** Prepares and starts retries and forks of a service on another machine, which decides what they take over. */
import { limitPlan } from '../start/run-limits.ts';
import { compileFrom, readEarlier, type RerunRequest } from '../start/prepare-rerun.ts';
import { findTrigger } from '../deployments/find-trigger.ts';
import { findRunHere } from '../runs/run-elsewhere.ts';
import { toWire } from '../../domain/plan/wire.ts';
import type { ServiceClient } from '../../http/service-client.ts';
import type { Machine } from '../machine.ts';
import { parsePreview, parsePreviewPlan } from './preview-shape.ts';
import type { Rerun, RerunOptions } from './run-control.ts';
import { createRefusal, measurePlan, requireNewId, sendPlan, sendStart } from './start-remotely.ts';

interface Tools {
  readonly client: ServiceClient;
  readonly context: Machine;
}

export interface RemoteRerun extends Omit<Rerun, 'start'> {
  /** Starts it, and connects to nothing. */
  start(taken: RerunOptions, onProgress: (line: string) => void): Promise<void>;
}

/** The service compiles a plan for a preview, and admission compares it: both may take longer than a read. */
const PREVIEW_MS = 2 * 60_000;
/** A spec that another person wrote gets no login of this machine. */
const NOWHERE = '/dev/null/logins';

/** @throws AppError, ServiceError */
export async function prepareRemotely(request: RerunRequest, tools: Tools): Promise<RemoteRerun> {
  const kind = request.file === null ? 'retry' : 'fork';
  const runId = await findRunHere(kind, request.earlier, tools.context);
  return await (kind === 'retry' ? prepareRetry : prepareFork)(runId, request, tools);
}

/** The service has the plan, and compiles it again if a parameter differs. */
async function prepareRetry(runId: string, request: RerunRequest, { client, context }: Tools): Promise<RemoteRerun> {
  const { params, images } = request;
  if (Object.keys(images.given).length > 0)
    throw createRefusal('`--image` of a retry names a file of this machine, and the service compiles the spec');
  if (images.allow.length > 0) throw createRefusal('`--allow-mounts` of a retry names a folder of this machine');
  const body = {
    ...describeOptions(request),
    ...(params === null ? {} : { params }),
    ...(request.continue === null ? {} : { continue: request.continue }),
  };
  const path = ['runs', runId, 'retry'];
  const answer = await sendPreview(client, path, 'plan', { ...body, ...markInput(request) });
  return {
    plan: parsePreviewPlan(answer, client.name),
    shown: parsePreview(answer, client.name),
    isOfDeployment: await isOfDeployment(runId, context),
    confinedTo: (answer as { readonly isOfOtherToken?: unknown }).isOfOtherToken === false ? undefined : NOWHERE,
    async start(taken, onProgress) {
      if (taken.allowGit.length > 0)
        throw createRefusal('a retry fetches only repositories that the earlier run was allowed to fetch');
      await requireNewId(taken.runId, context);
      await sendStart(path, body, taken, { client, context, onProgress });
    },
  };
}

/** The spec of a fork is a file of this machine, which sends its plan. */
async function prepareFork(runId: string, request: RerunRequest, { client, context }: Tools): Promise<RemoteRerun> {
  const earlier = await readEarlier(runId, context);
  const { source: _, ...read } = await compileFrom(earlier, request, context);
  const compiled = {
    ...read,
    plan: limitPlan(read.plan, request.limits),
    written: limitPlan(read.written, request.limits),
  };
  // A preview gets hashes only. The service compares them with the hashes of the earlier run.
  const hashes = await measurePlan({ ...compiled, allowMounts: request.images.allow }, context);
  const body = describeOptions(request);
  const path = ['runs', runId, 'fork'];
  const answer = await sendPreview(client, path, 'true', {
    ...body,
    ...markInput(request),
    plan: toWire(compiled.written),
    ...hashes,
  });
  return {
    plan: compiled.plan,
    shown: parsePreview(answer, client.name),
    confinedTo: context.confinedTo,
    isOfDeployment: await isOfDeployment(runId, context),
    async start(taken, onProgress) {
      const tools = { client, context, onProgress };
      const sent = await sendPlan({ ...compiled, ...taken }, tools);
      await sendStart(path, { ...body, ...sent }, taken, tools);
    },
  };
}

async function isOfDeployment(runId: string, context: Machine): Promise<boolean> {
  return (await findTrigger(runId, (await context.stores()).reader)) !== null;
}

async function sendPreview(
  client: ServiceClient,
  path: readonly string[],
  preview: 'true' | 'plan',
  json: Readonly<Record<string, unknown>>,
): Promise<unknown> {
  return await client.retry(() => client.change({ path, query: { preview }, body: { json }, answerMs: PREVIEW_MS }));
}

function describeOptions({ from, limits }: RerunRequest): Readonly<Record<string, unknown>> {
  return {
    ...(from === null ? {} : { from }),
    ...(limits.timeout === undefined ? {} : { timeoutMs: limits.timeout }),
    ...(limits.deadline === undefined ? {} : { deadlineMs: limits.deadline }),
  };
}

/** A new input counts as a different one, so a preview needs no text of it. */
function markInput({ hasInput }: RerunRequest): { readonly input?: string } {
  return hasInput ? { input: '' } : {};
}
