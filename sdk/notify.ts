/** `notify` of a definition: the receivers of messages about runs of a deployment. */
import type { CloudEventsMode, NotifyState } from '../domain/notification/notify.ts';
import * as known from './known-options.ts';
import { checkList, checkOptions } from './options.ts';
import type { SpecObject } from './stages/stage.ts';

/** It has `webhook`, `slack` or `cloudevents`. Secrets are named: they belong to the deployment. */
export interface ReceiverOptions {
  /** Unique in the definition. */
  readonly name: string;
  readonly states: readonly NotifyState[];
  /** The person whose links for answers its messages about questions contain. */
  readonly as?: string;
  /** A signed POST of JSON; `secret` names the secret that signs it. */
  readonly webhook?: { readonly url: string; readonly secret: string };
  /** `secret` names the secret whose value is the URL of an incoming webhook. */
  readonly slack?: { readonly secret: string };
  /** `token` names the secret that is sent as `Authorization: Bearer`. `mode` is `structured` by default. */
  readonly cloudevents?: { readonly url: string; readonly token?: string; readonly mode?: CloudEventsMode };
}

export function writeReceivers(
  receivers: readonly ReceiverOptions[] | undefined,
  owner: string,
): readonly SpecObject[] | undefined {
  if (receivers === undefined) return undefined;
  checkList(`\`notify\` ${owner}`, receivers);
  return receivers.map((receiver) => {
    checkOptions(`a receiver ${owner}`, receiver, known.RECEIVER_OPTIONS);
    const of = `of receiver "${receiver.name}"`;
    const { name, states, as, webhook, slack, cloudevents } = receiver;
    if (webhook !== undefined) checkOptions(`webhook ${of}`, webhook, known.NOTIFY_WEBHOOK_OPTIONS);
    if (slack !== undefined) checkOptions(`slack ${of}`, slack, known.NOTIFY_SLACK_OPTIONS);
    if (cloudevents !== undefined) checkOptions(`cloudevents ${of}`, cloudevents, known.NOTIFY_CLOUDEVENTS_OPTIONS);
    return { name, states, as, webhook, slack, cloudevents };
  });
}
