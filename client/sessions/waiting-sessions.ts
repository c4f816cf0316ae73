/** Which sessions wait for people, at which steps, for whom and until when. */
import type { Client } from '@temporalio/client';
import type { OpenSessionStep } from '../../activities/contract-session.ts';
import { isUnavailable } from '../temporal/unavailable.ts';
import { NoSuchSessionError } from './errors.ts';
import { eachSession, type ListedSession } from './list.ts';
import { viewSession } from './sessions.ts';

export interface WaitingStep {
  readonly step: string;
  readonly turn: number;
  /** Null: anyone. */
  readonly assignee: string | null;
  /** Null: as long as it takes. */
  readonly dueMs: number | null;
}

export interface WaitingSession extends ListedSession {
  readonly waiting: readonly WaitingStep[];
}

export interface WaitingSessions {
  /** Latest first. */
  readonly sessions: readonly WaitingSession[];
  /** Those whose workflow does not answer: whether they wait for people is not known. */
  readonly unasked: readonly { readonly session: string; readonly reason: string }[];
}

interface WaitingQuery {
  readonly limit: number;
  /** Selects the sessions that are asked; absent: all. */
  readonly isVisible?: (session: string) => boolean;
  /** The most open sessions that are looked at; absent: all. */
  readonly mostScanned?: number;
}

/** Sessions are asked by queries, which the worker answers: as many at once. */
const ASKED_AT_ONCE = 8;

/**
 * Asks open sessions, latest first, until it has found `limit` sessions that wait for people. It uses queries instead
 * of a search attribute, because some servers do not let the worker register attributes.
 */
export async function listWaitingSessions(
  client: Client,
  { limit, isVisible = () => true, mostScanned = Number.POSITIVE_INFINITY }: WaitingQuery,
): Promise<WaitingSessions> {
  const sessions: WaitingSession[] = [];
  const unasked: { readonly session: string; readonly reason: string }[] = [];
  let batch: ListedSession[] = [];
  const askBatch = async (): Promise<void> => {
    for (const answer of await Promise.all(batch.map((one) => ask(client, one)))) {
      if ('reason' in answer) unasked.push(answer);
      else if (answer.waiting.length > 0 && sessions.length < limit) sessions.push(answer);
    }
    batch = [];
  };
  let scanned = 0;
  for await (const one of eachSession(client, { state: 'open' })) {
    if (isVisible(one.session)) batch.push(one);
    scanned += 1;
    if (batch.length >= ASKED_AT_ONCE) await askBatch();
    if (sessions.length >= limit || scanned >= mostScanned) break;
  }
  if (sessions.length < limit) await askBatch();
  return { sessions, unasked };
}

async function ask(
  client: Client,
  listed: ListedSession,
): Promise<WaitingSession | { readonly session: string; readonly reason: string }> {
  try {
    const { open } = await viewSession(client, listed.session);
    return { ...listed, waiting: selectWaitingSteps(open) };
  } catch (error) {
    // The server has removed it since it was listed.
    if (error instanceof NoSuchSessionError) return { ...listed, waiting: [] };
    if (isUnavailable(error)) throw error;
    return { session: listed.session, reason: error instanceof Error ? error.message : String(error) };
  }
}

export function selectWaitingSteps(open: readonly OpenSessionStep[]): readonly WaitingStep[] {
  return open.flatMap(({ step, turn, human }) =>
    human === undefined ? [] : [{ step, turn, assignee: human.assignee ?? null, dueMs: human.dueMs ?? null }],
  );
}
