/** Changes of runs of this machine: by its own stack, or by your own Temporal server. */
import type { ServerLink } from '../../client/temporal/server-link.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import { createEnvironmentError } from '../app-error.ts';
import { toContinuedJson } from '../json/continued-json.ts';
import { toOriginJson } from '../json/origin-json.ts';
import type { Machine } from '../machine.ts';
import { openRunsLink } from '../server-link.ts';
import type { CancelRequest, ConnectedRun, Follower, Rerun, RunControl } from './run-control.ts';
import type { RerunRequest } from '../start/prepare-rerun.ts';
import type { StartRequest } from '../start/start-run.ts';
import { isElsewhere } from '../runs/run-elsewhere.ts';

export function createLocalControl(context: Machine): RunControl {
  return {
    start: (request, onProgress) => start(request, context, onProgress),
    async prepare(request) {
      const deployed = request.file === null ? await prepareDeployed(request, context) : null;
      if (deployed !== null) return deployed;
      const { prepareRerun } = await import('../start/prepare-rerun.ts');
      const { compiled, plan, origin, reuse, continued, isSamePlan, confinedTo } = await prepareRerun(request, context);
      const fork = request.file === null ? null : await prepareDeployedFork(request, plan, context);
      if (fork !== null) return fork;
      return {
        plan: compiled.plan,
        shown: { ...toOriginJson({ origin, reuse }), ...toContinuedJson(continued) },
        confinedTo,
        isOfDeployment: false,
        start: (taken, onProgress) =>
          start({ ...compiled, ...taken, plan, from: { origin, reuse, continued, isSamePlan } }, context, onProgress),
      };
    },
    async connect(runId, onProgress) {
      const link = await openLink(context, onProgress);
      const follow = async (follower: Follower): ReturnType<ConnectedRun['follow']> => {
        const { followRun } = await import('../runs/follow.ts');
        const stores = await context.stores();
        const { stateDir } = context.env;
        return await followRun({ ...follower, runId, stores, stateDir, link, isHere: true });
      };
      return connectRun(runId, link, follow, context);
    },
    cancel: (request) => cancel(request, context),
    async answer(found, options) {
      const { answerAsOwner } = await import('../answers/prove-answer.ts');
      return await answerAsOwner(found, options, context);
    },
    async release(request) {
      const { releaseHere } = await import('./release-here.ts');
      return await releaseHere(request, context);
    },
  };
}

/**
 * Only the service has the secrets of a deployment, so it retries and forks the runs of deliveries.
 * @returns null for any other run
 */
async function prepareDeployed(request: RerunRequest, context: Machine): Promise<Rerun | null> {
  const { findRunHere } = await import('../runs/run-elsewhere.ts');
  const runId = await findRunHere(request.file === null ? 'retry' : 'fork', request.earlier, context);
  const { findTrigger } = await import('../deployments/find-trigger.ts');
  if ((await findTrigger(runId, (await context.stores()).reader)) === null) return null;
  const { openOwnService } = await import('../access/token-service.ts');
  const service = await openOwnService(context.env, () => undefined);
  const { createRemoteControl } = await import('./remote-control.ts');
  return await createRemoteControl(service, context).prepare(request);
}

/**
 * Only the service has the secrets that a fork of such a run reads. With a server of your own, its owner starts forks.
 * @returns null for a fork of another run, and for one whose variables this process has
 */
async function prepareDeployedFork(request: RerunRequest, plan: Plan, context: Machine): Promise<Rerun | null> {
  const { env } = context;
  const isWhole = plan.hostVariables.every((name) => env.variables[name] !== undefined);
  if (isWhole || env.temporalConfigured) return null;
  // The spec was compiled a moment ago, and its warnings were shown.
  return await prepareDeployed({ ...request, onNotice: () => Promise.resolve() }, context);
}

async function start(
  request: StartRequest,
  context: Machine,
  onProgress: (line: string) => void,
): Promise<ConnectedRun> {
  const { startRun } = await import('../start/start-run.ts');
  const link = await startRun(request, context, onProgress);
  const follow = async (follower: Follower): ReturnType<ConnectedRun['follow']> => {
    const { followWherever } = await import('../runs/follow.ts');
    const stores = await context.stores();
    const { runId } = request;
    const view = await followWherever({ ...follower, runId, stores, stateDir: context.env.stateDir, link });
    // The run's worker removes the variables, unless it is on another host.
    if (view.outcome !== null && view.seq === 0) await stores.hostVariables.drop(runId);
    return view;
  };
  return connectRun(request.runId, link, follow, context);
}

function connectRun(runId: string, link: ServerLink, follow: ConnectedRun['follow'], context: Machine): ConnectedRun {
  return {
    url: link.runUrl(runId),
    follow,
    async cancel() {
      const { cancelRun } = await import('../../client/runs/runs.ts');
      await link.briefly((client) => cancelRun(client, runId));
    },
    async waitUntilAdmitted() {
      const { waitUntilAdmitted } = await import('../start/start-run.ts');
      await waitUntilAdmitted(runId, link, context);
    },
    async explainWait() {
      const { describeMissingWorker } = await import('../runs/missing-worker.ts');
      return await describeMissingWorker(link, Date.now());
    },
  };
}

async function openLink(context: Machine, onProgress: (line: string) => void): Promise<ServerLink> {
  const link = await openRunsLink(context, { start: true, onProgress });
  if (link !== null) return link;
  throw createEnvironmentError('cli/no-server', 'the server of the embedded stack does not answer');
}

async function cancel(
  { found, before, keepsFinally, onProgress }: CancelRequest,
  context: Machine,
): ReturnType<RunControl['cancel']> {
  const runId = isElsewhere(found) ? found.runId : found;
  const { cancelRun, cancelRunOrRest, describeRun } = await import('../../client/runs/runs.ts');
  // A cancel needs the worker that holds the VMs, so the stack is started when it sleeps.
  const link = await openLink(context, onProgress);
  const wasRunning = await link.briefly((client) => (keepsFinally ? cancelRun : cancelRunOrRest)(client, runId));
  if (before !== null && before.damage !== null) {
    // The events of a damaged run may lack the end, but the server knows it.
    const { state } = await link.briefly((client) => describeRun(client, runId));
    return { state: wasRunning ? 'cancelling' : state, wasRunning };
  }
  return { state: isElsewhere(found) ? 'cancelling' : null, wasRunning: true };
}
