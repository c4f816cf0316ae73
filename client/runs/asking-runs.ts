/**
 * Runs of the server that wait for an answer and live on another host. Their events are in the store of that host, so
 * each run is asked.
 */
import type { Client } from '@temporalio/client';
import { AnswerError, type OpenQuestions, readOpenQuestions } from './answers.ts';
import { listRunsWithoutEnd } from './waiting-admissions.ts';

export interface AskingRun extends OpenQuestions {
  readonly runId: string;
}

export interface AskingRuns {
  /** Latest first. */
  readonly runs: readonly AskingRun[];
  /** Ids of open runs that no worker answers for, so their questions are unknown. */
  readonly silent: readonly string[];
  /** The server has open runs that were not asked. */
  readonly hasMore: boolean;
}

const ASKED_AT_ONCE = 8;
/** A run whose worker is away never answers. */
const QUERY_LIMIT_MS = 2_000;

/**
 * @param isKnown  whether this host has events of a run, so that it need not be asked
 * @param sinceMs  the earliest start of a run; absent: any
 * @throws what the connection throws
 */
export async function listAskingRuns(
  client: Client,
  {
    isKnown,
    sinceMs,
  }: { readonly isKnown: (runId: string) => Promise<boolean>; readonly sinceMs?: number | undefined },
): Promise<AskingRuns> {
  const { runIds, hasMore } = await listRunsWithoutEnd(client, sinceMs);
  const unknown: string[] = [];
  for (const runId of runIds) if (!(await isKnown(runId))) unknown.push(runId);
  const runs: AskingRun[] = [];
  const silent: string[] = [];
  for (let at = 0; at < unknown.length; at += ASKED_AT_ONCE) {
    const batch = unknown.slice(at, at + ASKED_AT_ONCE);
    const answers = await Promise.all(batch.map((runId) => askRun(client, runId)));
    answers.forEach((answer, index) => {
      const runId = batch[index]!;
      if (answer === 'silent') silent.push(runId);
      else if (answer !== 'ended' && answer.stages.length > 0) runs.push({ runId, ...answer });
    });
  }
  return { runs, silent, hasMore };
}

async function askRun(client: Client, runId: string): Promise<OpenQuestions | 'ended' | 'silent'> {
  try {
    return await client.withDeadline(Date.now() + QUERY_LIMIT_MS, () => readOpenQuestions(client, runId));
  } catch (error) {
    if (!(error instanceof AnswerError) || error.kind === 'refused') throw error;
    return error.kind;
  }
}
