import { readHostId } from '../../client/vms/this-host.ts';
import { AppError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import { isRunId, quoteRunId } from '../../domain/run/run-id.ts';
import { openRunsLink } from '../server-link.ts';
import { formatRunId } from './run-id.ts';
import { findRunId } from './run-lookup.ts';
import { shorten } from '../../domain/units/quote.ts';
import { quoteArgument } from '../../domain/security/typed-argument.ts';

/**
 * A run that Temporal knows and this host's store does not: a run of another host, a pruned run, or a run that no
 * worker has admitted yet.
 */
export interface RunElsewhere {
  readonly runId: string;
  readonly state: string;
  readonly host: string | null;
  /** It was a run of this host: its files have been deleted since. */
  readonly isPruned: boolean;
  /** Its page in the Temporal UI. */
  readonly url: string | null;
  /** A line about the worker that the run waits for; null: it does not wait for a worker. */
  readonly missingWorker: string | null;
}

export function isElsewhere(found: string | RunElsewhere): found is RunElsewhere {
  return typeof found !== 'string';
}

/**
 * Returns the id of a run in the store, else the answer of Temporal about a run with exactly that id.
 * @throws AppError when neither knows it
 */
export async function findRunOrElsewhere(text: string, context: Machine): Promise<string | RunElsewhere> {
  try {
    return await findRunId((await context.stores()).index, text);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const elsewhere = await askTemporal(text, context);
    if (elsewhere === null) throw error;
    return elsewhere;
  }
}

/**
 * Like `findRunOrElsewhere`, for a caller that knows the whole id. `latest` and the beginning of an id name no run here.
 * @throws AppError `api/no-run` when neither the store nor Temporal knows it
 */
export async function findExactRun(runId: string, context: Machine): Promise<string | RunElsewhere> {
  if (await (await context.stores()).index.has(runId)) return runId;
  const elsewhere = isRunId(runId) ? await askTemporal(runId, context) : null;
  if (elsewhere === null) throw createNoRunError(runId);
  return elsewhere;
}

/** @throws AppError for a run without events in the store: `api/no-run`, `api/not-admitted` if it waits for a worker */
export async function requireKnownRun(runId: string, context: Machine): Promise<void> {
  const found = await findExactRun(runId, context);
  if (!isElsewhere(found)) return;
  if (found.host !== null || found.state !== 'running') throw createNoRunError(runId);
  throw new AppError(
    'environment',
    'api/not-admitted',
    `no worker has admitted the run ${shorten(formatRunId(runId))} yet`,
  );
}

export function createNoRunError(runId: string): AppError {
  return new AppError('usage', 'api/no-run', `there is no run \`${shorten(formatRunId(runId))}\``);
}

/**
 * Like `findRunOrElsewhere`, for a command that needs the run's data.
 * @throws AppError that names the host with the data, or says that it is gone
 */
export async function findRunHere(
  command: 'apply' | 'approval link' | 'artifacts' | 'diff' | 'exec' | 'fork' | 'logs' | 'release' | 'result' | 'retry',
  text: string,
  context: Machine,
): Promise<string> {
  const found = await findRunOrElsewhere(text, context);
  if (!isElsewhere(found)) return found;
  if (found.isPruned) {
    await (await context.stores()).inspector.refuseSetAside(found.runId);
    throw new AppError(
      'environment',
      'cli/run-pruned',
      `run ${found.runId} (${found.state}) was pruned from this host: its events, logs and outputs are deleted`,
      `The Temporal server still has its history: ${found.url ?? `temporal workflow show --workflow-id ${quoteArgument(found.runId)}`}`,
    );
  }
  if (found.host === null)
    throw new AppError(
      'environment',
      'cli/run-elsewhere',
      `no worker has taken run ${found.runId} (${found.state}) yet, or its host is unknown, so this host has no data of it`,
      found.missingWorker,
    );
  throw new AppError(
    'environment',
    'cli/run-elsewhere',
    `run ${found.runId} (${found.state}) is on host ${found.host}, which has its data`,
    `On that host: voidbox ${command} ${quoteRunId(found.runId)}`,
  );
}

async function askTemporal(runId: string, context: Machine): Promise<RunElsewhere | null> {
  const link = await openRunsLink(context, { start: false });
  if (link === null) return null;
  const { describeRun } = await import('../../client/runs/runs.ts');
  const { readHostOfRun } = await import('../../client/runs/run-host.ts');
  const { describeMissingWorker } = await import('./missing-worker.ts');
  const { state } = await link.briefly((client) => describeRun(client, runId));
  if (state === 'missing') return null;
  const host = await link.briefly((client) => readHostOfRun(client, runId));
  // A refused run names no host. A run that the embedded server knows was here.
  const isPruned = host === null ? link.isEmbedded && state !== 'running' : host === readHostId(context.env.stateDir);
  const isWaiting = host === null && state === 'running';
  const missingWorker = isWaiting ? await describeMissingWorker(link, Date.now()) : null;
  return { runId, state, host, isPruned, url: link.runUrl(runId), missingWorker };
}
