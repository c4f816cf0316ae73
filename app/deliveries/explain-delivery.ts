/** Explains what a trigger would decide about a payload, as if no other delivery existed. Nothing is stored or started. */
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
import type { EvaluateDelivery } from './evaluate-delivery.ts';

/** An id that no delivery has. */
const EXAMPLE_ID = '0'.repeat(26);

export interface ExplainRequest {
  readonly deployment: string;
  readonly trigger: string;
  readonly body: Uint8Array;
  readonly contentType: string;
  /** By names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
}

export interface Explanation {
  readonly deployment: string;
  readonly trigger: string;
  /** The enabled version. */
  readonly version: number;
  /** Null: `problem` says why no expression has a value. */
  readonly evaluation: Evaluation | null;
  readonly problem: { readonly code: string; readonly message: string } | null;
  /** The first decision. Null: there is a problem. */
  readonly decision: ExplainedDecision | null;
  /** The rules of the trigger that a decision applies. */
  readonly rules: Pick<Trigger, 'when' | 'dedupe' | 'debounce' | 'batch' | 'rate' | 'order'>;
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

/** @throws AppError `api/no-deployment`, `trigger/unknown`, `api/invalid-request` */
export async function explainDelivery(
  request: ExplainRequest,
  { triggers: { deployments }, evaluate, caller, nowMs }: ExplainTools,
): Promise<Explanation> {
  const { deployment: name, body, contentType, headers } = request;
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
  const about = {
    deployment: name,
    trigger: trigger.name,
    version: version.version,
    rules: { when, dedupe, debounce, batch, rate, order },
  };
  const evaluation = await evaluate(trigger, { contentType, senderId: null, headers }, body);
  if ('code' in evaluation) return { ...about, evaluation: null, problem: evaluation, decision: null };
  const row = createExampleRow(request, version.version, nowMs);
  const facts = { ...NO_FACTS, pause: deployment.isPaused ? deployment.onPause : null };
  const { next } = createDecide({ trigger, evaluation })(row, facts, nowMs);
  return { ...about, evaluation, problem: null, decision: explainNext(next, nowMs) };
}

function createExampleRow(
  { deployment, trigger, body, contentType, headers }: ExplainRequest,
  version: number,
  nowMs: number,
): ReturnType<typeof createRow> {
  return createRow(
    {
      id: EXAMPLE_ID,
      deployment,
      trigger,
      version,
      acceptedAtMs: nowMs,
      senderId: null,
      contentType,
      headers,
      traceparent: null,
      cloudEvent: null,
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
