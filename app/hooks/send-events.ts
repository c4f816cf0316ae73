/** Sends events to a webhook as its sender would, to try it out. They pass the same verification. */
import { MOST_PAYLOAD_BYTES } from '../../domain/delivery/delivery.ts';
import type { DeploymentStore } from '../../store/triggers.ts';
import { AppError } from '../app-error.ts';
import { createDeliveryId } from '../deliveries/accept.ts';
import { toMediaType } from '../cloud-events/read-events.ts';
import { readContentType } from './content-type.ts';
import { createHookFinder, type FoundHook } from './find-hook.ts';
import type { HookHeaders } from './hook-request.ts';
import { type HookOutcome, type ReceiveTools, receiveHook } from './receive-hook.ts';
import { REFUSAL_REASONS } from './refusal-log.ts';
import { chooseScheme } from './schemes.ts';

/** The most events of one request. */
export const MOST_SENT_EVENTS = 100;

export interface SendRequest {
  readonly deployment: string;
  readonly trigger: string;
  /** The payload of each event. */
  readonly bodies: readonly Uint8Array[];
  readonly contentType: string;
  /** Added to those of the sender, which they replace. */
  readonly headers: Readonly<Record<string, string>>;
  /** The name of the event, for senders that write it into a header; null: none. */
  readonly event: string | null;
  /** Each event is sent this often, with the same id, as a sender repeats it. */
  readonly times: number;
  /** The last event is sent first. */
  readonly isReordered: boolean;
}

/** The outcome of one sent event. */
export interface SentEvent {
  /** The place of its payload in `bodies`. */
  readonly body: number;
  /** Null: it was refused, is the answer to a challenge, or is a batch. */
  readonly delivery: string | null;
  /** The deliveries of a batch of CloudEvents. Null: it is no batch. */
  readonly deliveries: readonly string[] | null;
  /** Why it was refused; null: it was not. */
  readonly refusal: string | null;
}

export interface SendTools extends Omit<ReceiveTools, 'onVerified'> {
  readonly deployments: Pick<DeploymentStore, 'find' | 'findVersion'>;
}

const EVENT_HEADERS: Readonly<Record<string, string>> = { github: 'x-github-event', gitlab: 'x-gitlab-event' };

/** @throws AppError `api/no-hook`, `api/unsupported-body`, `api/invalid-request`, `api/too-large` */
export async function sendEvents(request: SendRequest, tools: SendTools): Promise<readonly SentEvent[]> {
  const { deployment, trigger, bodies, times, isReordered } = request;
  const hook = await createHookFinder(() => Promise.resolve(tools.deployments))({ deployment, name: trigger });
  if (hook === null) throw new AppError('usage', 'api/no-hook', 'the deployment has no webhook with this name');
  requireSendable(request, hook);
  const { verify } = hook.source;
  const [secret = null] = verify.scheme === 'none' ? [''] : await tools.readSecrets(deployment, verify.secret);
  const events = bodies.map((body, at) => ({ at, body, id: `try-${createDeliveryId(tools.nowMs())}` }));
  const round = isReordered ? events.toReversed() : events;
  const sent: SentEvent[] = [];
  for (const { at, body, id } of Array.from({ length: times }, () => round).flat()) {
    const nowMs = tools.nowMs();
    const signed = secret === null ? null : chooseScheme(verify).sign({ body, nowMs, id }, secret);
    const outcome: HookOutcome =
      signed === null
        ? { kind: 'refused', refusal: 'no-secret' }
        : await receiveHook(
            hook,
            {
              headers: toHeaders(request, hook, signed),
              body,
              nowMs,
              contentType: readType(request.contentType, hook)!,
            },
            { ...tools, onVerified: () => undefined },
          );
    sent.push(describeOutcome(at, outcome));
  }
  return sent;
}

function readType(contentType: string, { source }: Pick<FoundHook, 'source'>): string | null {
  return source.format === 'cloudevents' ? toMediaType(contentType) : readContentType(contentType);
}

function requireSendable({ bodies, contentType, event, times }: SendRequest, hook: FoundHook): void {
  const { source } = hook;
  if (readType(contentType, hook) === null)
    throw new AppError('usage', 'api/unsupported-body', 'an event is JSON, a form or plain text, in UTF-8');
  const tooLarge = bodies.findIndex((body) => body.byteLength > MOST_PAYLOAD_BYTES);
  if (tooLarge !== -1)
    throw new AppError('usage', 'api/too-large', `event ${tooLarge + 1} has more than ${MOST_PAYLOAD_BYTES} bytes`);
  if (bodies.length * times > MOST_SENT_EVENTS)
    throw new AppError('usage', 'api/invalid-request', `a request sends at most ${MOST_SENT_EVENTS} events`);
  if (event !== null && EVENT_HEADERS[source.verify.scheme] === undefined)
    throw new AppError(
      'usage',
      'api/invalid-request',
      `\`event\`: a sender with \`verify: ${source.verify.scheme}\` has no header for the name of an event`,
    );
}

function toHeaders({ contentType, headers, event }: SendRequest, { source }: FoundHook, signed: object): HookHeaders {
  const named = event === null ? {} : { [EVENT_HEADERS[source.verify.scheme]!]: event };
  const given = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value] as const);
  const all = { 'content-type': contentType, ...signed, ...named, ...Object.fromEntries(given) };
  return new Map(Object.entries(all).map(([name, value]) => [name, [value]]));
}

function describeOutcome(body: number, outcome: HookOutcome): SentEvent {
  return {
    body,
    delivery: outcome.kind === 'accepted' ? outcome.delivery : null,
    deliveries: outcome.kind === 'batch' ? outcome.deliveries : null,
    refusal: outcome.kind === 'refused' ? REFUSAL_REASONS[outcome.refusal] : null,
  };
}
