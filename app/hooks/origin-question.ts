/**
 * The question of a sender of CloudEvents whether it may send events here: "Abuse protection" of the standard "HTTP 1.1
 * Web Hooks for Event Delivery". It proves nothing, and neither does the answer: each event has its own proof.
 */

/** The name of a system in DNS, which is a part of the answer. */
const ORIGIN = /^[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$/;
const RATE = /^[1-9]\d{0,8}$/;

export interface OriginQuestion {
  /** `WebHook-Request-Origin`; null: absent. */
  readonly origin: string | null;
  /** `WebHook-Request-Rate`, in requests a minute; null: absent. */
  readonly rate: string | null;
}

/**
 * Makes the headers of the answer.
 * @param mostPerMinute  a higher rate is not promised
 * @returns null if the request is not such a question
 */
export function answerOrigin(
  { origin, rate }: OriginQuestion,
  mostPerMinute: number,
): Readonly<Record<string, string>> | null {
  if (origin === null || !ORIGIN.test(origin)) return null;
  if (rate !== null && !RATE.test(rate)) return null;
  return {
    allow: 'POST, OPTIONS',
    'webhook-allowed-origin': origin,
    ...(rate === null ? {} : { 'webhook-allowed-rate': String(Math.min(Number(rate), mostPerMinute)) }),
  };
}
