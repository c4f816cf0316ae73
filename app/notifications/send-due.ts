/**
 * Sends notifications that are due, until it is closed. Several processes may do this at once, and each may die at any
 * time: a claim ends after a time, and another process sends again, with the same id.
 */
import { randomUUID } from 'node:crypto';
import type { NoticeMessage } from '../../domain/notification/notice.ts';
import type { Receiver } from '../../domain/notification/notify.ts';
import { findNotifyPause } from '../../domain/notification/retry.ts';
import type { GuardedPost, PostResult } from '../../http/guarded-post.ts';
import type { NotificationRow, SendResult } from '../../store/ports/notifications.ts';
import type { TriggerStore } from '../../store/triggers.ts';
import { startClaimLoop } from '../claim-loop.ts';
import type { Loop } from '../loop.ts';
import type { ReadSecretValues } from '../deliveries/read-deliveries.ts';
import { writeRequest } from './write-message.ts';

/** A question that a person may answer by a link. */
export interface LinkRequest {
  readonly runId: string;
  readonly stage: string;
  readonly execKey: string;
  /** The person. */
  readonly as: string;
}

/** @returns null if no link can answer the question */
export type CreateApprovalLink = (request: LinkRequest) => Promise<string | null>;

export interface SenderOptions {
  readonly openTriggers: () => Promise<TriggerStore | null>;
  readonly readSecretValues: ReadSecretValues;
  readonly createApprovalLink: CreateApprovalLink;
  /** Never rejects. */
  readonly post: (post: GuardedPost) => Promise<PostResult>;
  readonly nowMs: () => number;
  readonly log: (line: string) => void;
  /** Called after the last due notification was sent. */
  readonly onIdle: (triggers: TriggerStore) => Promise<void>;
  /** Other limits are for tests. */
  readonly limits?: Readonly<Record<keyof typeof SENDER_LIMITS, number>>;
}

export const SENDER_LIMITS = {
  /** Notifications that a process sends at once. */
  atOnce: 16,
  /** Longer than a try. A process that records nothing for this long is taken for dead. */
  leaseMs: 60_000,
  /** The pause between two looks, if no call of `wake` ends it. */
  idleMs: 5_000,
  /** The pause after a failure of the database. */
  failureMs: 2_000,
} as const;

/** `wake`: a notification may be due. */
export type Sender = Loop;

export function startSender(options: SenderOptions): Sender {
  const { nowMs, limits = SENDER_LIMITS } = options;
  const { leaseMs, atOnce: limit } = limits;
  return startClaimLoop({
    ...options,
    what: 'notifications',
    limits,
    beginsBusy: false,
    // A run that has ended changes what `onIdle` tells, also without a notification.
    wakesBusy: true,
    async claim(triggers) {
      const token = randomUUID();
      const claimed = await triggers.notifications.claim({ token, nowMs: nowMs(), leaseMs, limit });
      await Promise.all(claimed.map(async (row) => await sendAndRecord(row, token, triggers, options)));
      return claimed.length > 0 ? 'some' : 'none';
    },
    findNextDue: async ({ notifications }, atMs) => await notifications.findNextDue(atMs),
  });
}

async function sendAndRecord(
  row: NotificationRow,
  token: string,
  triggers: TriggerStore,
  options: SenderOptions,
): Promise<void> {
  const { nowMs, log } = options;
  const result = await trySending(row, triggers, options).catch((error: Error): Failure => ({
    code: 'notify/no-answer',
    problem: error.message,
  }));
  const recorded = result === null ? ({ kind: 'sent' } as const) : planNextTry(row, result, nowMs());
  if (recorded.kind === 'failed') log(`notification ${row.id}: ${recorded.code}: ${recorded.problem}`);
  // If the database does not answer, the claim ends after its lease, and the notification is sent again.
  await triggers.notifications
    .record({ id: row.id, token }, recorded, nowMs())
    .catch((error: Error) => log(`notification ${row.id}: ${error.message}`));
}

interface Failure {
  readonly code: string;
  readonly problem: string;
  /** No further try can help. */
  readonly isFinal?: true;
}

function planNextTry({ tries }: NotificationRow, { code, problem, isFinal }: Failure, nowMs: number): SendResult {
  const pauseMs = isFinal === true ? null : findNotifyPause(tries + 1);
  return { kind: 'failed', code, problem, nextAtMs: pauseMs === null ? null : nowMs + pauseMs };
}

/** @returns null: the receiver has it */
async function trySending(
  { id, receiver: name, message }: NotificationRow,
  { deployments }: TriggerStore,
  { readSecretValues, createApprovalLink, post, nowMs }: SenderOptions,
): Promise<Failure | null> {
  // The enabled version decides, so that a corrected URL counts for earlier notifications, and a removed one gets nothing.
  const deployment = await deployments.find(message.deployment);
  const version = deployment === null ? null : await deployments.findVersion(deployment.name, deployment.version);
  const receiver = version?.notify.receivers.find((each) => each.name === name);
  if (receiver === undefined)
    return { code: 'notify/no-receiver', problem: `the deployment has no receiver ${name}`, isFinal: true };
  const { target } = receiver;
  const secretName = target.kind === 'cloudevents' ? target.token : target.secret;
  let secret: string | null = null;
  try {
    if (secretName !== null) secret = (await readSecretValues(message.deployment, [secretName]))[secretName] ?? null;
  } catch (error) {
    return { code: 'notify/bad-secret', problem: (error as Error).message };
  }
  const link = await makeLink(message, receiver, createApprovalLink);
  const request = writeRequest({ id, message, target, secret, link, nowMs: nowMs() });
  if ('problem' in request) return { code: 'notify/bad-secret', problem: request.problem };
  const result = await post(request);
  if (result.kind === 'failed') return result;
  const { status } = result;
  if (status >= 200 && status < 300) return null;
  const failure = { code: 'notify/bad-answer', problem: `the receiver answers with status ${status}` };
  // As Standard Webhooks defines it, the receiver wants no further message.
  return status === 410 ? { ...failure, isFinal: true } : failure;
}

async function makeLink(
  { runId, stage, question }: NoticeMessage,
  { as }: Receiver,
  createApprovalLink: CreateApprovalLink,
): Promise<string | null> {
  if (as === null || runId === null || stage === null || question === null) return null;
  // A message without its link is better than none.
  return await createApprovalLink({ runId, stage, execKey: question.execKey, as }).catch(() => null);
}
