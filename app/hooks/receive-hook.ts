/** A request of a webhook: from the bytes that arrived to a delivery, a refusal or the answer to a challenge. */
import { acceptDeliveries, acceptDelivery, type AcceptTools } from '../deliveries/accept.ts';
import type { DeliveryStore } from '../../store/triggers.ts';
import { readCloudEvents } from './cloud-events.ts';
import { findSlackChallenge } from './challenge.ts';
import { readCloudEvent, readTraceparent, selectEventHeaders } from './event-headers.ts';
import type { FoundHook } from './find-hook.ts';
import type { HookRefusal, HookRequest, HookSecrets } from './hook-request.ts';
import { chooseScheme } from './schemes.ts';

export type HookOutcome =
  | { readonly kind: 'refused'; readonly refusal: HookRefusal }
  | { readonly kind: 'challenge'; readonly answer: string }
  | { readonly kind: 'accepted'; readonly delivery: string }
  /** A batch of CloudEvents, which may be empty. */
  | { readonly kind: 'batch'; readonly deliveries: readonly string[] };

export interface ReceiveTools extends Omit<AcceptTools, 'deliveries'> {
  readonly deliveries: Pick<DeliveryStore, 'accept' | 'acceptAll'>;
  /** Reads the values of a secret that webhooks of a deployment accept now; empty: the secret does not exist. */
  readonly readSecrets: ReadHookSecrets;
  /** Called once the proof is right, before the delivery is accepted. */
  readonly onVerified: () => void;
}

export type ReadHookSecrets = (deployment: string, name: string) => Promise<HookSecrets>;

/**
 * A request that a sender of events has sent, with its type as `readContentType` returns it, or `toMediaType` for a
 * trigger with CloudEvents. Null: only an event of CloudEvents without data has no type.
 */
export interface ReceivedRequest extends HookRequest {
  readonly contentType: string | null;
}

/**
 * @throws CodedError `api/access-unavailable`, `host/disk-full`, AppError for a wrong event of CloudEvents:
 *   `api/unsupported-body`, `api/invalid-request`, `api/too-large`
 */
export async function receiveHook(
  { deployment, version, trigger, source: { verify, format } }: FoundHook,
  request: ReceivedRequest,
  { readSecrets, onVerified, ...tools }: ReceiveTools,
): Promise<HookOutcome> {
  const scheme = chooseScheme(verify);
  const secrets = verify.scheme === 'none' ? [] : await readSecrets(deployment, verify.secret);
  const refusal = scheme.verify(request, secrets);
  if (refusal !== null) return { kind: 'refused', refusal };
  onVerified();
  const { headers, body, contentType } = request;
  const answer = findSlackChallenge(verify, body);
  if (answer !== null) return { kind: 'challenge', answer };
  const place = { deployment, version, trigger: trigger.name, isOrdered: trigger.order !== null };
  if (format === 'cloudevents') {
    const { isBatch, events } = await readCloudEvents(request);
    const deliveries = await acceptDeliveries(
      events.map((event) => ({ ...place, ...event })),
      tools,
    );
    return isBatch ? { kind: 'batch', deliveries } : { kind: 'accepted', delivery: deliveries[0]! };
  }
  const delivery = await acceptDelivery(
    {
      ...place,
      contentType: contentType ?? '',
      body,
      senderId: scheme.findSenderId(request),
      headers: selectEventHeaders(headers),
      traceparent: readTraceparent(headers),
      cloudEvent: readCloudEvent(headers),
    },
    tools,
  );
  return { kind: 'accepted', delivery };
}
