/** Evaluates the expressions of a trigger for a delivery, in a thread with limits. */
import { createHash } from 'node:crypto';
import type { ConditionThreads } from '../../conditions/threads.ts';
import type { PayloadText } from '../../domain/language/expression/evaluate-trigger.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import type { Evaluation } from '../../domain/delivery/decision.ts';
import { MOST_KEY_BYTES } from '../../domain/delivery/delivery.ts';
import type { Trigger } from '../../domain/delivery/trigger.ts';
import type { DeliveryRow } from '../../store/triggers.ts';

/** An evaluation, or the reason why no try can succeed. */
export type EvaluateDelivery = (
  trigger: Trigger,
  delivery: Pick<DeliveryRow, 'contentType' | 'senderId' | 'headers'>,
  body: Uint8Array,
) => Promise<Evaluation | { readonly code: string; readonly message: string }>;

export function createEvaluateDelivery(threads: Pick<ConditionThreads, 'evaluateTrigger'>): EvaluateDelivery {
  return async (trigger, delivery, body) => {
    const payload = readPayload(body, delivery.contentType);
    const answer = await threads.evaluateTrigger({ trigger: pickTexts(trigger), payload, headers: delivery.headers });
    if ('problem' in answer) {
      const message = sanitizeLine(`\`${answer.where}\` of the trigger ${trigger.name}: ${answer.problem}`);
      return { code: answer.isPayload ? 'trigger/bad-payload' : 'trigger/bad-expression', message };
    }
    const { keys } = answer;
    const own = delivery.senderId ?? createHash('sha256').update(body).digest('hex');
    const shortenKey = (key: string | null): string | null => (key === null ? null : shortenLongKey(key));
    return {
      ...answer,
      keys: {
        dedupe: shortenLongKey(keys.dedupe ?? own),
        debounce: shortenKey(keys.debounce),
        batch: shortenKey(keys.batch),
        rate: shortenKey(keys.rate),
        order: shortenKey(keys.order),
      },
    };
  };
}

/** Only these reach the thread: names of secrets do not. */
function pickTexts({
  name,
  when,
  params,
  input,
  dedupe,
  debounce,
  batch,
  rate,
  order,
}: Parameters<EvaluateDelivery>[0]): Parameters<ConditionThreads['evaluateTrigger']>[0]['trigger'] {
  return { name, when, params, input, dedupe, debounce, batch, rate, order };
}

export function readPayload(body: Uint8Array, contentType: string): PayloadText {
  const text = decodeUtf8(body);
  if (contentType === 'application/json' || contentType.endsWith('+json')) return { form: 'json', text };
  if (contentType === 'application/x-www-form-urlencoded')
    return { form: 'json', text: text === null ? null : writeForm(text) };
  return { form: 'text', text };
}

/** A mark at the beginning is no part of the text. */
function decodeUtf8(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

/** A field that occurs once is a text, and one that occurs several times a list. */
function writeForm(text: string): string {
  const fields = new Map<string, string | string[]>();
  for (const [name, value] of new URLSearchParams(text)) {
    const before = fields.get(name);
    if (before === undefined) fields.set(name, value);
    else if (Array.isArray(before)) before.push(value);
    else fields.set(name, [before, value]);
  }
  const entries = [...fields].map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`);
  return `{${entries.join(',')}}`;
}

function shortenLongKey(key: string): string {
  if (Buffer.byteLength(key) <= MOST_KEY_BYTES) return key;
  return `sha256:${createHash('sha256').update(key).digest('hex')}`;
}
