/** A request of a webhook: from the bytes that arrived to a delivery, a refusal or the answer to a challenge. */
import { acceptDelivery, type AcceptTools } from '../deliveries/accept.ts';
import { findSlackChallenge } from './challenge.ts';
import { readCloudEvent, readTraceparent, selectEventHeaders } from './event-headers.ts';
import type { FoundHook } from './find-hook.ts';
import type { HookRefusal, HookRequest, HookSecrets } from './hook-request.ts';
import { chooseScheme } from './schemes.ts';

export type HookOutcome =
  | { readonly kind: 'refused'; readonly refusal: HookRefusal }
  | { readonly kind: 'challenge'; readonly answer: string }
  | { readonly kind: 'accepted'; readonly delivery: string };

export interface ReceiveTools extends AcceptTools {
  /** Reads the values of a secret that webhooks of a deployment accept now; empty: the secret does not exist. */
  readonly readSecrets: ReadHookSecrets;
  /** Called once the proof is right, before the delivery is accepted. */
  readonly onVerified: () => void;
}

export type ReadHookSecrets = (deployment: string, name: string) => Promise<HookSecrets>;

/** A request that a sender of events has sent, with its type as `readContentType` returns it. */
export interface ReceivedRequest extends HookRequest {
  readonly contentType: string;
}

/** @throws CodedError `api/access-unavailable`, `host/disk-full` */
export async function receiveHook(
  { deployment, version, trigger, source: { verify } }: FoundHook,
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
  const delivery = await acceptDelivery(
    {
      deployment,
      version,
      trigger: trigger.name,
      isOrdered: trigger.order !== null,
      contentType,
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
