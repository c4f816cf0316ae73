/** Changes of runs through a service on another machine. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ServiceSettings } from '../../domain/access/service-settings.ts';
import { connectService, createForeignError, type ServiceClient } from '../../http/service-client.ts';
import { project } from '../../store/projection.ts';
import { emptyView, type RunView } from '../../store/run-view.ts';
import type { AnswerReceipt } from '../../workflows/run/answer-request.ts';
import type { AnswerOptions } from '../answers/answer-run.ts';
import { nameUser } from '../answers/given-answer.ts';
import type { Machine } from '../machine.ts';
import type { AskedRun, CancelRequest, ConnectedRun, Follower, RunControl } from './run-control.ts';
import { isElsewhere } from '../runs/run-elsewhere.ts';

/** How often the service is asked whether the run ended without writing its last event. */
const REPAIR_EVERY_MS = 10_000;

export function createRemoteControl(service: ServiceSettings, context: Machine): RunControl {
  const client = connectService(service);
  const connect = (runId: string): ConnectedRun => connectRun(runId, client, context);
  return {
    async start(request, onProgress) {
      const { startRemotely } = await import('./start-remotely.ts');
      await startRemotely(request, { client, context, onProgress });
      return connect(request.runId);
    },
    async prepare(request) {
      const { prepareRemotely } = await import('./rerun-remotely.ts');
      const { start, ...rerun } = await prepareRemotely(request, { client, context });
      return {
        ...rerun,
        async start(taken, onProgress) {
          await start(taken, onProgress);
          return connect(taken.runId);
        },
      };
    },
    connect: (runId) => Promise.resolve(connect(runId)),
    cancel: (request) => cancel(request, client),
    answer: (found, options) =>
      sendAnswer(isElsewhere(found) ? found.runId : found, options, { client, isToken: service.token !== null }),
    async release(request) {
      const { releaseRemotely } = await import('./release-remotely.ts');
      return await releaseRemotely(request, client, context);
    },
  };
}

function connectRun(runId: string, client: ServiceClient, context: Machine): ConnectedRun {
  return {
    url: null,
    follow: (follower) => follow(runId, follower, { client, context }),
    cancel: async () => void (await sendCancel(runId, client, true)),
    // The service waits for the admission before it answers to the start.
    waitUntilAdmitted: () => Promise.resolve(),
    explainWait: () => Promise.resolve(null),
  };
}

async function follow(
  runId: string,
  { signal, onEvent, onTrouble }: Follower,
  { client, context }: { readonly client: ServiceClient; readonly context: Machine },
): Promise<RunView> {
  const { reader } = await context.stores();
  const told = new Set<string>();
  const listening = client.onTrouble((message) => {
    if (!told.has(message)) onTrouble(message);
    told.add(message);
  });
  const done = new AbortController();
  const care = repairUntilEnd(runId, client, AbortSignal.any([signal, done.signal]));
  let view = emptyView(runId);
  try {
    for await (const event of reader.follow(runId, 0, signal)) {
      view = project(view, event);
      await onEvent(event, view);
    }
    return view;
  } finally {
    done.abort();
    listening.dispose();
    await care;
  }
}

/** The service repairs a run that was terminated from outside when it reads the run. */
async function repairUntilEnd(runId: string, client: ServiceClient, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await sleep(REPAIR_EVERY_MS, undefined, { signal }).catch(() => undefined);
    // The follower reports a service that is away.
    if (!signal.aborted) await client.send({ path: ['runs', runId], signal }).then(drain, () => undefined);
  }
}

function drain(answer: { resume(): unknown }): void {
  answer.resume();
}

async function cancel({ found, before, keepsFinally }: CancelRequest, client: ServiceClient): Promise<AskedRun> {
  const runId = isElsewhere(found) ? found.runId : found;
  const { state, wasRunning } = await sendCancel(runId, client, keepsFinally);
  const isShown = wasRunning && (before === null || before.damage === null) && !isElsewhere(found);
  return { state: isShown ? null : state, wasRunning };
}

/** The same answer gets the same receipt, so it is sent again after a connection that broke. */
async function sendAnswer(
  runId: string,
  { stage, given, user }: AnswerOptions,
  { client, isToken }: { readonly client: ServiceClient; readonly isToken: boolean },
): Promise<AnswerReceipt> {
  const answer = isToken ? given : nameUser(given, user);
  const request = { path: ['runs', runId, 'answer'], body: { json: { ...answer, stage } } };
  return (await client.retry(() => client.change(request))) as AnswerReceipt;
}

/** @param keepsFinally  a second cancel, such as one after a connection that broke, ends no stage with `finally` */
async function sendCancel(
  runId: string,
  client: ServiceClient,
  keepsFinally: boolean,
): Promise<{ readonly state: string; readonly wasRunning: boolean }> {
  const query = { finally: keepsFinally ? 'keep' : undefined };
  const answer = (await client.change({ path: ['runs', runId, 'cancel'], query })) as Partial<
    Record<'state' | 'wasRunning', unknown>
  > | null;
  const { state, wasRunning } = answer ?? {};
  if (typeof state === 'string' && typeof wasRunning === 'boolean') return { state, wasRunning };
  throw createForeignError(client.name);
}
