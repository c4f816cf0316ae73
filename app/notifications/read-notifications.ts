/** Lists notifications, shows one and replays some. Their texts are redacted when they are made. */
import { nameRun } from '../../domain/delivery/deployment-name.ts';
import type { NoticeMessage } from '../../domain/notification/notice.ts';
import { shorten } from '../../domain/units/quote.ts';
import type { NotificationQuery, NotificationRow, NotificationStore } from '../../store/ports/notifications.ts';
import type { Caller } from '../access/authenticate.ts';
import { mayCallerSeeDeployment } from '../access/visible-deployments.ts';
import { mayCallerSee } from '../access/visible-runs.ts';
import { AppError } from '../app-error.ts';

/** The most pages of the store that one page of a caller with few notifications reads. */
const MOST_PAGES = 20;
/** The most notifications of one request. */
export const MOST_NOTIFICATION_REPLAYS = 1_000;

export interface NotificationJson
  extends
    Pick<NotificationRow, 'id' | 'receiver' | 'state' | 'createdAtMs' | 'dueAtMs' | 'tries' | 'code' | 'sentAtMs'>,
    Pick<NoticeMessage, 'deployment' | 'kind' | 'runId'> {}

export interface ShownNotification extends NotificationJson {
  /** The text of the latest failure. Null: no try has failed. */
  readonly problem: string | null;
  readonly message: NoticeMessage;
}

export interface NotificationPage {
  readonly notifications: readonly NotificationJson[];
  /** The number before which the next page begins; null: no notification follows. */
  readonly next: number | null;
}

interface Tools {
  readonly notifications: NotificationStore;
}

export async function listNotifications(
  { limit, ...query }: NotificationQuery,
  caller: Caller,
  { notifications }: Tools,
): Promise<NotificationPage> {
  const found: NotificationRow[] = [];
  let { before } = query;
  for (let pages = 0; pages < MOST_PAGES; pages += 1) {
    const rows = await notifications.list({ ...query, limit: limit + 1, ...(before === undefined ? {} : { before }) });
    found.push(...rows.filter((row) => maySee(caller, row)));
    before = rows.at(-1)?.seq;
    if (found.length > limit) break;
    if (rows.length <= limit) return { notifications: found.map(toJson), next: null };
  }
  const page = found.slice(0, limit);
  // A page of a caller that sees few notifications may be short, and others follow.
  const next = page.length === limit ? page.at(-1)!.seq : (before ?? null);
  return { notifications: page.map(toJson), next };
}

/** @throws AppError `api/no-notification`, also for one that the caller may not see */
export async function showNotification(
  id: string,
  caller: Caller,
  { notifications }: Tools,
): Promise<ShownNotification> {
  const row = await notifications.find(id);
  if (row === null || !maySee(caller, row)) throw createAbsentError(id);
  return { ...toJson(row), problem: row.problem, message: row.message };
}

export type NotificationReplayRequest =
  | { readonly ids: readonly string[] }
  /** All dead notifications of a deployment. */
  | { readonly deadOf: string };

export interface NotificationReplay {
  readonly notification: string;
  /** Why it is not sent again. Null: it is. */
  readonly problem: string | null;
}

/**
 * Sends notifications again, with their ids. One that cannot be replayed stops no other.
 * @throws AppError `api/invalid-request` for too many notifications
 */
export async function replayNotifications(
  request: NotificationReplayRequest,
  caller: Caller,
  { notifications, nowMs }: Tools & { readonly nowMs: number },
): Promise<readonly NotificationReplay[]> {
  const ids = 'ids' in request ? [...new Set(request.ids)] : await listDead(request.deadOf, caller, notifications);
  if (ids.length > MOST_NOTIFICATION_REPLAYS) throw createTooManyError();
  const replays: NotificationReplay[] = [];
  for (const id of ids) {
    const row = await notifications.find(id);
    const isVisible = row !== null && maySee(caller, row);
    const isReplayed = isVisible && (await notifications.replay(id, nowMs));
    const problem = isReplayed ? null : isVisible ? 'it waits for its next try' : 'it does not exist';
    replays.push({ notification: id, problem });
  }
  return replays;
}

async function listDead(
  deployment: string,
  caller: Caller,
  notifications: NotificationStore,
): Promise<readonly string[]> {
  const query = { deployment, state: 'dead', limit: MOST_NOTIFICATION_REPLAYS + 1 } as const;
  const dead = (await notifications.list(query)).filter((row) => maySee(caller, row));
  return dead.map(({ id }) => id).toReversed();
}

function createTooManyError(): AppError {
  return new AppError(
    'usage',
    'api/invalid-request',
    `one request replays at most ${MOST_NOTIFICATION_REPLAYS} notifications`,
    'Name the ids of some: voidbox notifications --state dead',
  );
}

function createAbsentError(id: string): AppError {
  return new AppError('usage', 'api/no-notification', `there is no notification \`${shorten(id)}\``);
}

function maySee(caller: Caller, { message: { deployment, delivery, runId } }: NotificationRow): boolean {
  if (runId !== null) return mayCallerSee(caller, runId);
  return delivery === null
    ? mayCallerSeeDeployment(caller, deployment)
    : mayCallerSee(caller, nameRun(deployment, delivery));
}

function toJson(row: NotificationRow): NotificationJson {
  const { id, receiver, state, createdAtMs, dueAtMs, tries, code, sentAtMs, message } = row;
  const { deployment, kind, runId } = message;
  return { id, deployment, receiver, kind, runId, state, createdAtMs, dueAtMs, tries, code, sentAtMs };
}
