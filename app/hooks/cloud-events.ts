/** Makes deliveries of the events of a verified request: one for each event of CloudEvents. */
import { type ReadEvent, readEvents } from '../cloud-events/read-events.ts';
import type { ReceivedEvent } from '../deliveries/accept.ts';
import { isTraceparent, MOST_EVENT_HEADERS, readTraceparent, selectEventHeaders } from './event-headers.ts';
import type { HookHeaders, HookRequest } from './hook-request.ts';

export type HookEvent = Required<
  Pick<ReceivedEvent, 'senderId' | 'headers' | 'contentType' | 'body' | 'traceparent' | 'cloudEvent'>
>;

export interface HookEvents {
  readonly isBatch: boolean;
  readonly events: readonly HookEvent[];
}

/** @throws AppError `api/unsupported-body`, `api/invalid-request`, `api/too-large` */
export async function readCloudEvents(
  request: HookRequest & { readonly contentType: string | null },
): Promise<HookEvents> {
  const { isBatch, events } = await readEvents(request);
  return { isBatch, events: events.map((event) => toHookEvent(event, request.headers)) };
}

function toHookEvent({ attributes, data, contentType }: ReadEvent, requestHeaders: HookHeaders): HookEvent {
  const { id, source } = attributes;
  const { traceparent = '' } = attributes;
  return {
    // The standard makes the pair unique.
    senderId: JSON.stringify([source, id]),
    headers: selectHeaders(attributes, contentType, requestHeaders),
    contentType,
    body: data,
    // The attribute has the trace in which the event began; proxies may change the header.
    traceparent: isTraceparent(traceparent) ? traceparent : readTraceparent(requestHeaders),
    cloudEvent: { source, id },
  };
}

/** Attributes are headers with the names of the binary form, in each of the forms. */
function selectHeaders(
  attributes: ReadEvent['attributes'],
  contentType: string,
  requestHeaders: HookHeaders,
): Readonly<Record<string, string>> {
  const own = Object.entries(attributes).map(([name, value]) => [`ce-${name}`, value] as const);
  const others = Object.entries(selectEventHeaders(requestHeaders)).filter(
    ([name]) => !name.startsWith('ce-') && name !== 'content-type',
  );
  return Object.fromEntries([...own, ['content-type', contentType] as const, ...others].slice(0, MOST_EVENT_HEADERS));
}
