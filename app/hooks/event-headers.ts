/** Which headers of a request become a part of its delivery. Expressions of triggers read these and no other. */
import type { HookHeaders } from './hook-request.ts';

/** Names of the event, its time and its sender. No proof, no login and no cookie is one of them. */
const ALLOWED: ReadonlySet<string> = new Set([
  'content-type',
  'user-agent',
  'traceparent',
  'tracestate',
  'idempotency-key',
  'x-request-id',
  'x-github-event',
  'x-github-delivery',
  'x-github-hook-id',
  'x-github-hook-installation-target-id',
  'x-github-hook-installation-target-type',
  'x-gitlab-event',
  'x-gitlab-event-uuid',
  'x-gitlab-webhook-uuid',
  'x-gitlab-instance',
  'x-gitea-event',
  'x-gitea-delivery',
  'x-forgejo-event',
  'x-forgejo-delivery',
  'x-event-key',
  'x-slack-request-timestamp',
  'x-slack-retry-num',
  'x-slack-retry-reason',
  'x-shopify-topic',
  'x-shopify-webhook-id',
  'x-shopify-shop-domain',
  'webhook-id',
  'webhook-timestamp',
]);
/** Attributes of CloudEvents. */
const CLOUD_EVENT = /^ce-[a-z0-9]{1,20}$/;

/** The most characters of a value; a longer one is left out. */
export const HEADER_CHARACTERS = 1_024;
/** The most headers of a delivery; later ones are left out. */
export const MOST_EVENT_HEADERS = 64;

/** Joins the values of a repeated header, as HTTP does. */
export function selectEventHeaders(headers: HookHeaders): Readonly<Record<string, string>> {
  const selected = [...headers].flatMap(([name, values]) => {
    const value = values.join(', ');
    const isSelected = (ALLOWED.has(name) || CLOUD_EVENT.test(name)) && value.length <= HEADER_CHARACTERS;
    return isSelected ? [[name, value] as const] : [];
  });
  return Object.fromEntries(selected.slice(0, MOST_EVENT_HEADERS));
}

/** W3C Trace Context, version 00. */
const TRACEPARENT = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

export function isTraceparent(text: string): boolean {
  return TRACEPARENT.test(text);
}

/** @returns null for a header that is absent or not of this form, which the standard says to ignore */
export function readTraceparent(headers: HookHeaders): string | null {
  const [value, ...others] = headers.get('traceparent') ?? [];
  return value !== undefined && others.length === 0 && isTraceparent(value) ? value : null;
}

/** Returns the ids of an event of CloudEvents 1.0 in the binary form; null: it is no such event. */
export function readCloudEvent(headers: HookHeaders): { readonly source: string; readonly id: string } | null {
  const read = (name: string): string => (headers.get(name)?.length === 1 ? headers.get(name)![0]! : '');
  const [source, id] = [read('ce-source'), read('ce-id')];
  const isEvent = read('ce-specversion') === '1.0' && source !== '' && id !== '';
  return isEvent && source.length <= HEADER_CHARACTERS && id.length <= HEADER_CHARACTERS ? { source, id } : null;
}
