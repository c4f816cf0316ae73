/** Answers of the API about deliveries. Its process may be of another build, so each answer is checked. */
import type { Explanation } from '../../app/deliveries/explain-delivery.ts';
import type { DeliveryJson, DeliveryPage, ShownDelivery } from '../../app/deliveries/read-deliveries.ts';
import type { Replay } from '../../app/deliveries/replay-deliveries.ts';
import { createForeignError } from '../access/answers.ts';

const DELIVERY_FIELDS = [
  'id',
  'deployment',
  'trigger',
  'acceptedAtMs',
  'state',
  'hold',
  'runId',
  'into',
  'code',
  'tries',
];
const DETAIL_FIELDS = ['senderId', 'headers', 'params', 'keys', 'payload', 'isCut'];
const EXPLANATION_FIELDS = ['deployment', 'trigger', 'version', 'events', 'rules'];
const REPLAY_FIELDS = ['delivery', 'replay', 'code', 'message'];

export interface TriggeredAnswer {
  readonly delivery: string;
  readonly runId: string;
}

export function parseTriggered(answer: unknown): TriggeredAnswer {
  const { delivery, runId } = (answer ?? {}) as Partial<Record<string, unknown>>;
  if (typeof delivery === 'string' && typeof runId === 'string') return { delivery, runId };
  throw createForeignError();
}

export interface SentAnswer {
  readonly body: number;
  readonly delivery: string | null;
  /** Null: it is no batch of CloudEvents. */
  readonly deliveries: readonly string[] | null;
  readonly refusal: string | null;
}

export function parseSent(answer: unknown): readonly SentAnswer[] {
  const { sent } = (answer ?? {}) as { readonly sent?: unknown };
  if (!Array.isArray(sent)) throw createForeignError();
  return sent.map((each: unknown) => {
    const {
      body,
      delivery = null,
      deliveries = null,
      refusal = null,
    } = (each ?? {}) as Partial<Record<string, unknown>>;
    const isBatch = Array.isArray(deliveries) && deliveries.every((id) => typeof id === 'string');
    if (typeof body === 'number' && isTextOrNull(delivery) && isTextOrNull(refusal) && (isBatch || deliveries === null))
      return { body, delivery, deliveries, refusal };
    throw createForeignError();
  });
}

function isTextOrNull(value: unknown): value is string | null {
  return value === null || typeof value === 'string';
}

export function parseDeliveries(answer: unknown): DeliveryPage {
  const { deliveries, next } = (answer ?? {}) as { readonly deliveries?: unknown; readonly next?: unknown };
  if (!Array.isArray(deliveries) || !deliveries.every((each) => hasFields(each, DELIVERY_FIELDS)))
    throw createForeignError();
  return { deliveries: deliveries as readonly DeliveryJson[], next: typeof next === 'number' ? next : null };
}

export function parseDelivery(answer: unknown): ShownDelivery {
  if (!hasFields(answer, [...DELIVERY_FIELDS, 'message', 'chain', 'details'])) throw createForeignError();
  const { details } = answer as { readonly details: unknown };
  if (details === null || hasFields(details, DETAIL_FIELDS)) return answer as ShownDelivery;
  throw createForeignError();
}

export function parseReplays(answer: unknown): readonly Replay[] {
  const { replays } = (answer ?? {}) as { readonly replays?: unknown };
  if (Array.isArray(replays) && replays.every((each) => hasFields(each, REPLAY_FIELDS)))
    return replays as readonly Replay[];
  throw createForeignError();
}

export function parseExplanation(answer: unknown): Explanation {
  if (hasFields(answer, EXPLANATION_FIELDS)) return answer as Explanation;
  throw createForeignError();
}

function hasFields(value: unknown, names: readonly string[]): boolean {
  return typeof value === 'object' && value !== null && names.every((name) => name in value);
}
