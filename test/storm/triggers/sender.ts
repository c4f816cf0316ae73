/** Senders of events, which send each event until it is accepted, and then once more. */
import { createHash, createHmac } from 'node:crypto';
import { request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Random } from '../random.ts';
import {
  awaitAnswer,
  isAccepted,
  readText,
  repeatUntil,
  sendTo,
  type Service,
  UnexpectedAnswer,
} from '../service/client.ts';
import type { SentEvent } from './findings.ts';

export const DEPLOYMENT = 'storm';
export const SECRET = 'the secret of all senders of a storm';
export const SECRET_NAME = 'STORM_SECRET';

/** Without VMs: the storm is about the deliveries. */
export const SPEC = `kind: workflow
name: ${DEPLOYMENT}
sandbox: { mode: mock, isolation: none }
on:
  - name: ordered
    webhook: { verify: github, secret: ${SECRET_NAME} }
    order: { key: "\${{ input.key }}" }
  - name: merged
    webhook: { verify: github, secret: ${SECRET_NAME} }
    debounce: { key: "\${{ input.key }}", delay: 300ms, max_delay: 2s, take: last }
workflow:
  steps:
    - { name: a, run: { program: echo, args: [x] } }
`;

/** The answer to each event is read as often, because a sender may have lost the first one. */
const ANSWERS = 2;
const PAUSE_MS = 250;
const SILENCE_MS = 40_000;

export interface Sequence {
  readonly trigger: 'ordered' | 'merged' | 'api';
  /** The key of its events. */
  readonly key: string;
  readonly events: number;
}

export interface Sending {
  readonly service: Service;
  readonly endAtMs: number;
  readonly random: Random;
}

/** Sends the events of a sequence, one after the other. @throws UnexpectedAnswer */
export async function sendSequence(sequence: Sequence, sending: Sending): Promise<readonly SentEvent[]> {
  const { trigger, key, events } = sequence;
  const sent: SentEvent[] = [];
  for (let at = 0; at < events; at += 1) {
    await sleep(sending.random.below(PAUSE_MS));
    const name = `${key}.${at}`;
    const body = JSON.stringify({ key, name });
    const answered: string[] = [];
    while (answered.length < ANSWERS) answered.push(await sendEvent({ trigger, name, body }, sending));
    const bodySha256 = createHash('sha256').update(body).digest('hex');
    sent.push({ name, trigger, bodySha256, orderKey: trigger === 'ordered' ? key : null, answered });
  }
  return sent;
}

interface Event {
  readonly trigger: Sequence['trigger'];
  readonly name: string;
  readonly body: string;
}

/** @returns the id of its delivery */
async function sendEvent({ trigger, name, body }: Event, { service, endAtMs }: Sending): Promise<string> {
  const what = `the event ${name}`;
  const { delivery } = await repeatUntil(what, endAtMs, async () => {
    const sent =
      trigger === 'api'
        ? sendTo(service, 'tcp', `deployments/${DEPLOYMENT}/runs`, {
            method: 'POST',
            headers: { 'idempotency-key': name },
            body: JSON.stringify({ input: body }),
          })
        : sendHook(service, trigger, name, body);
    const answer = await awaitAnswer(sent);
    if (!(await isAccepted(answer, [202], what))) return null;
    return JSON.parse(await readText(answer)) as { readonly delivery: string };
  });
  return delivery;
}

export function sendHook({ port }: Pick<Service, 'port'>, trigger: string, name: string, body: string) {
  const sent = request({
    host: '127.0.0.1',
    port,
    path: `/hooks/${DEPLOYMENT}/${trigger}`,
    method: 'POST',
    agent: false,
    timeout: SILENCE_MS,
    headers: {
      'content-type': 'application/json',
      'x-github-event': 'push',
      'x-github-delivery': name,
      'x-hub-signature-256': `sha256=${createHmac('sha256', SECRET).update(body).digest('hex')}`,
    },
  });
  sent.on('timeout', () => sent.destroy(new UnexpectedAnswer(`the event ${name}: no byte for ${SILENCE_MS} ms`)));
  sent.end(body);
  return sent;
}
