/** The rows of an outbox that start no run. */
import { MOST_PAYLOAD_BYTES } from '../delivery/delivery.ts';

/** Characters of an id as text. */
export const MOST_ROW_ID = 256;

export interface OutboxRow {
  readonly id: string;
  readonly createdAt: string;
  readonly payloadBytes: number;
  /** Null: it has more bytes than a payload may have, or it is NULL. */
  readonly payload: string | null;
}

/** Returns why a row starts no run; null: it may start one. */
export function findRowProblem({ id, payload, payloadBytes }: OutboxRow): string | null {
  if (id.length > MOST_ROW_ID) return `its id has more than ${MOST_ROW_ID} characters`;
  if (payload === null)
    return payloadBytes === 0
      ? 'its payload is NULL'
      : `its payload has ${payloadBytes} bytes; at most ${MOST_PAYLOAD_BYTES} are allowed`;
  return isJson(payload) ? null : 'its payload is not JSON';
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
