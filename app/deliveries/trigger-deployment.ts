/** A run of a deployment that a person or a program asks for: a delivery of the trigger `api`. */
import { API_TRIGGER, MOST_PAYLOAD_BYTES } from '../../domain/delivery/delivery.ts';
import { countUtf8Bytes } from '../../domain/units/utf8.ts';
import { quote } from '../../domain/units/quote.ts';
import type { DeploymentRow, DeploymentStore } from '../../store/triggers.ts';
import { type Caller, requireRun } from '../access/authenticate.ts';
import { AppError } from '../app-error.ts';
import { acceptDelivery, type AcceptTools, createDeliveryId } from './accept.ts';

/** The latest time that a sender may choose, from now. */
export const MOST_DELAY_MS = 366 * 24 * 60 * 60_000;
/** The most names of parameters in a message. */
const MOST_SHOWN = 20;
/** A sender's key for a request that it repeats. */
const KEY = /^[\x21-\x7e]{1,255}$/;

export interface TriggerRequest {
  readonly deployment: string;
  /** Null: an empty input. */
  readonly input: string | null;
  readonly params: Readonly<Record<string, string>>;
  /** The run starts at this time, or so long after now; at most one of them. Null: at once. */
  readonly notBeforeMs: number | null;
  readonly delayMs: number | null;
  /** The delivery is refused if its run has not started this long after it could. Null: it waits. */
  readonly ttlMs: number | null;
  /** Requests with equal keys start one run. Null: each request starts one. */
  readonly key: string | null;
}

export interface TriggeredRun {
  readonly delivery: string;
  /** The run that the delivery starts, unless it is a duplicate. */
  readonly runId: string;
}

export interface TriggerTools extends AcceptTools {
  readonly deployments: Pick<DeploymentStore, 'find' | 'findVersion'>;
  readonly caller: Caller;
}

/** @throws AppError `api/no-deployment`, `api/not-allowed`, `api/invalid-request`, CodedError `api/access-unavailable` */
export async function startTriggered(
  { deployment, input, params, ttlMs, key, ...times }: TriggerRequest,
  { deployments, caller, ...tools }: TriggerTools,
): Promise<TriggeredRun> {
  const id = createDeliveryId(tools.nowMs());
  const runId = `${deployment}-${id}`;
  // Before the deployment is looked up: a token for other runs learns nothing about it.
  requireRun(caller, runId);
  const nowMs = tools.nowMs();
  if (key !== null && !KEY.test(key))
    throw createInvalidError('`Idempotency-Key`: a key has 1 to 255 printable ASCII characters and no blank');
  if (times.notBeforeMs !== null && times.delayMs !== null)
    throw createInvalidError('`at` and `afterMs` contradict each other');
  const notBeforeMs = times.delayMs === null ? times.notBeforeMs : nowMs + times.delayMs;
  if (notBeforeMs !== null && notBeforeMs - nowMs > MOST_DELAY_MS)
    throw createInvalidError('the time of the start is more than 366 days away');
  if (input !== null && countUtf8Bytes(input) > MOST_PAYLOAD_BYTES)
    throw createInvalidError(`\`input\` has more than ${MOST_PAYLOAD_BYTES} bytes`);
  const row = await deployments.find(deployment);
  if (row === null) throw new AppError('usage', 'api/no-deployment', 'there is no deployment with this name');
  await refuseUnknownParams(Object.keys(params), row, deployments);
  await acceptDelivery(
    {
      id,
      deployment,
      version: row.version,
      trigger: API_TRIGGER,
      isOrdered: false,
      contentType: 'text/plain',
      body: Buffer.from(input ?? ''),
      params,
      // Two equal inputs are two events.
      senderId: key ?? id,
      notBeforeMs,
      expiresAtMs: ttlMs === null ? null : Math.max(nowMs, notBeforeMs ?? nowMs) + ttlMs,
    },
    tools,
  );
  return { delivery: id, runId };
}

/** The delivery would be accepted, and its run refused. */
async function refuseUnknownParams(
  given: readonly string[],
  { name, version }: DeploymentRow,
  deployments: Pick<DeploymentStore, 'findVersion'>,
): Promise<void> {
  if (given.length === 0) return;
  const known = (await deployments.findVersion(name, version))?.paramNames ?? [];
  const unknown = given.find((each) => !known.includes(each));
  if (unknown === undefined) return;
  const shown = known.slice(0, MOST_SHOWN).join(', ');
  const more = known.length > MOST_SHOWN ? ', …' : '';
  const names = known.length === 0 ? 'it has no parameters' : `its parameters: ${shown}${more}`;
  throw createInvalidError(`\`params\`: the spec of version ${version} has no parameter ${quote(unknown)}; ${names}`);
}

function createInvalidError(message: string): AppError {
  return new AppError('usage', 'api/invalid-request', message);
}
