/**
 * Payloads as the SDK writes and reads them, with one difference: an argument that can't be read becomes a value with
 * the reason. An error here would fail the workflow task, and Temporal would retry it for ever.
 */
import { defaultPayloadConverter, type Payload, type PayloadConverter } from '@temporalio/common';

export interface UnreadablePayload {
  readonly unreadable: string;
}

export const payloadConverter: PayloadConverter = {
  toPayload: (value) => defaultPayloadConverter.toPayload(value),
  fromPayload<T>(payload: Payload): T {
    try {
      return defaultPayloadConverter.fromPayload<T>(payload);
    } catch (error) {
      return { unreadable: error instanceof Error ? error.message : String(error) } satisfies UnreadablePayload as T;
    }
  },
};
