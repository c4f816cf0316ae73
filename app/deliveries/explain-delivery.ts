/**
 * Explains what a trigger would decide about the events of a request, as if no other delivery existed. Nothing is stored
 * or started.
 */
import { createDecide } from '../../domain/delivery/decide.ts';
import type { Evaluation, Next } from '../../domain/delivery/decision.ts';
import { API_TRIGGER, MOST_PAYLOAD_BYTES } from '../../domain/delivery/delivery.ts';
import { createRow, NO_FACTS } from '../../domain/delivery/row-changes.ts';
import type { Trigger } from '../../domain/delivery/trigger.ts';
import { shorten } from '../../domain/units/quote.ts';
import type { TriggerStore } from '../../store/triggers.ts';
import type { Caller } from '../access/authenticate.ts';
import { mayCallerSee } from '../access/visible-runs.ts';
import { AppError } from '../app-error.ts';
import { BATCHED_TYPE, STRUCTURED_TYPE } from '../cloud-events/media-types.ts';
import { toMediaType } from '../cloud-events/read-events.ts';
import { type HookEvent, readCloudEvents } from '../hooks/cloud-events.ts';
import { readContentType } from '../hooks/content-type.ts';
import { selectEventHeaders } from '../hooks/event-headers.ts';
import type { HookHeaders } from '../hooks/hook-request.ts';
import type { EvaluateDelivery } from './evaluate-delivery.ts';

/** An id that no delivery has. */
const EXAMPLE_ID = '0'.repeat(26);

export interface ExplainRequest {
  readonly deployment: string;
  readonly trigger: string;
  readonly body: Uint8Array;
  /** As a sender writes it. Null: JSON, or for CloudEvents the form that the payload has. */
  readonly contentType: string | null;
  /** The headers of the request, by names in lower case. */
  readonly headers: HookHeaders;
}

export interface Explanation {
  readonly deployment: string;
  readonly trigger: string;
  /** The enabled version. */
  readonly version: number;
  /** One for each delivery: a batch of CloudEvents has any number of them. */
  readonly events: readonly ExplainedEvent[];
  /** The rules of the trigger that a decision applies. */
  readonly rules: Pick<Trigger, 'when' | 'dedupe' | 'debounce' | 'batch' | 'rate' | 'order'>;
}

export interface ExplainedEvent {
  /** Null: the trigger reads no CloudEvents. */
  readonly cloudEvent: { readonly source: string; readonly id: string } | null;
  /** Null: `problem` says why no expression has a value. */
  readonly evaluation: Evaluation | null;
  readonly problem: { readonly code: string; readonly message: string } | null;
  /** The first decision. Null: there is a problem. */
  readonly decision: ExplainedDecision | null;
}

export interface ExplainedDecision {
  readonly kind: Next['kind'];
  /** Why the delivery would wait; null: it would not. */
  readonly hold: string | null;
  /** How long it would wait; null: it would not. */
  readonly waitMs: number | null;
  /** The code and the reason of an outcome without a run. Null: none. */
  readonly code: string | null;
  readonly message: string | null;
}

export interface ExplainTools {
  readonly triggers: Pick<TriggerStore, 'deployments'>;
  readonly evaluate: EvaluateDelivery;
  readonly caller: Caller;
  readonly nowMs: number;
}

/**
 * @throws AppError `api/no-deployment`, `trigger/unknown`, and the code with which the webhook would refuse the request:
 *   `api/invalid-request`, `api/unsupported-body`, `api/too-large`
 */
export async function explainDelivery(
  request: ExplainRequest,
  { triggers: { deployments }, evaluate, caller, nowMs }: ExplainTools,
): Promise<Explanation> {
  const { deployment: name, body } = request;
  const isVisible = mayCallerSee(caller, `${name}-${EXAMPLE_ID}`);
  const deployment = isVisible ? await deployments.find(name) : null;
  const version = deployment === null ? null : await deployments.findVersion(name, deployment.version);
  if (deployment === null || version === null)
    throw new AppError('usage', 'api/no-deployment', `there is no deployment \`${shorten(name)}\``);
  const trigger = version.triggers.find((each) => each.name === request.trigger);
  if (trigger === undefined) throw createUnknownError(request, version.version);
  if (body.byteLength > MOST_PAYLOAD_BYTES)
    throw new AppError('usage', 'api/invalid-request', `the payload has more than ${MOST_PAYLOAD_BYTES} bytes`);
  const { when, dedupe, debounce, batch, rate, order } = trigger;
  const pause = deployment.isPaused ? deployment.onPause : null;
  const explained: ExplainedEvent[] = [];
  for (const event of await readSentEvents(trigger, request, nowMs)) {
    const { contentType, senderId, headers, cloudEvent } = event;
    const evaluation = await evaluate(trigger, { contentType, senderId, headers }, event.body);
    if ('code' in evaluation) {
      explained.push({ cloudEvent, evaluation: null, problem: evaluation, decision: null });
      continue;
    }
    const row = createExampleRow(request, event, { version: version.version, nowMs });
    const { next } = createDecide({ trigger, evaluation })(row, { ...NO_FACTS, pause }, nowMs);
    explained.push({ cloudEvent, evaluation, problem: null, decision: explainNext(next, nowMs) });
  }
  return {
    deployment: name,
    trigger: trigger.name,
    version: version.version,
    events: explained,
    rules: { when, dedupe, debounce, batch, rate, order },
  };
}

/** An event as its delivery would have it. */
interface SentEvent extends Pick<HookEvent, 'contentType' | 'senderId' | 'headers' | 'body' | 'cloudEvent'> {}

/** @throws AppError */
async function readSentEvents(
  { source }: Trigger,
  { body, contentType: given, headers }: ExplainRequest,
  nowMs: number,
): Promise<readonly SentEvent[]> {
  if (source.kind === 'webhook' && source.format === 'cloudevents') {
    const contentType = given === null ? guessForm(body, headers) : toMediaType(given);
    if (contentType === null)
      throw new AppError('usage', 'api/unsupported-body', '`contentType` of the event is not a media type');
    return (await readCloudEvents({ headers, body, contentType, nowMs })).events;
  }
  const contentType = readContentType(given ?? JSON_TYPE);
  if (contentType === null)
    throw new AppError('usage', 'api/unsupported-body', '`contentType` is not JSON, form data or text');
  const typed = new Map([...headers, ['content-type', [given ?? JSON_TYPE]] as const]);
  return [{ contentType, senderId: null, headers: selectEventHeaders(typed), body, cloudEvent: null }];
}

const JSON_TYPE = 'application/json';

/** A saved event has no `Content-Type`, and its text shows the form. Without attributes it is the data of the binary form. */
function guessForm(body: Uint8Array, headers: HookHeaders): string {
  if (headers.has('ce-id') || headers.has('ce-specversion')) return JSON_TYPE;
  return Buffer.from(body).toString().trimStart().startsWith('[') ? BATCHED_TYPE : STRUCTURED_TYPE;
}

function createExampleRow(
  { deployment, trigger }: ExplainRequest,
  { body, contentType, senderId, headers, cloudEvent }: SentEvent,
  { version, nowMs }: { readonly version: number; readonly nowMs: number },
): ReturnType<typeof createRow> {
  return createRow(
    {
      id: EXAMPLE_ID,
      deployment,
      trigger,
      version,
      acceptedAtMs: nowMs,
      senderId,
      contentType,
      headers,
      traceparent: null,
      cloudEvent,
      upstream: null,
      replayOf: null,
      notBeforeMs: null,
      expiresAtMs: null,
      schedule: null,
      params: {},
      bodySha256: '',
      bodyBytes: body.byteLength,
    },
    0,
  );
}

function explainNext(next: Next, nowMs: number): ExplainedDecision {
  const none = { hold: null, waitMs: null, code: null, message: null };
  if (next.kind === 'hold') return { ...none, kind: next.kind, hold: next.hold, waitMs: next.dueAtMs - nowMs };
  if (next.kind === 'filter' || next.kind === 'refuse')
    return { ...none, kind: next.kind, code: next.code, message: next.message };
  return { ...none, kind: next.kind };
}

function createUnknownError({ deployment, trigger }: ExplainRequest, version: number): AppError {
  const remedy =
    trigger === API_TRIGGER ? 'A run that you ask for is not decided by expressions: voidbox trigger NAME' : null;
  return new AppError(
    'usage',
    'trigger/unknown',
    `version ${version} of the deployment ${deployment} has no trigger \`${shorten(trigger)}\``,
    remedy,
  );
}
