/** Senders of events, which send each event until it is accepted, and then once more. */
import { createHash, createHmac } from 'node:crypto';
import { request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeScheduledPayload } from '../../../domain/delivery/scheduled-payload.ts';
import type { Random } from '../random.ts';
import {
  awaitAnswer,
  isAccepted,
  readText,
  repeatUntil,
  sendTo,
  type Service,
  SILENCE_MS,
  UnexpectedAnswer,
} from '../service/client.ts';
import type { SentEvent } from './findings.ts';
import type { Outside } from './outside.ts';
import { DEPLOYMENT, SECRET, SCHEDULE_MS, TIMED, type TriggerName } from './spec.ts';

/** The answer to each event is read as often, because a sender may have lost the first one. */
const ANSWERS = 2;
const PAUSE_MS = 250;

export interface Sequence {
  readonly trigger: TriggerName;
  /** The key of its events. */
  readonly key: string;
  readonly events: number;
}

export interface Sending {
  readonly service: Service;
  readonly outside: Outside;
  readonly endAtMs: number;
  readonly random: Random;
}

/** Sends the events of a sequence, one after the other. @throws UnexpectedAnswer */
export async function sendSequence(sequence: Sequence, sending: Sending): Promise<readonly SentEvent[]> {
  const { trigger, key, events } = sequence;
  if (trigger === TIMED) return await sendTimes(sequence, sending);
  const sent: SentEvent[] = [];
  for (let at = 0; at < events; at += 1) {
    await sleep(sending.random.below(PAUSE_MS));
    const name = `${key}.${at}`;
    const body = JSON.stringify({ key, name });
    const orderKey = trigger === 'ordered' ? key : null;
    sent.push({ name, trigger, orderKey, ...(await sendEvent({ trigger, name, body }, sending)) });
  }
  return sent;
}

type Answers = Pick<SentEvent, 'bodySha256' | 'answered'>;

interface Event {
  readonly trigger: Exclude<TriggerName, typeof TIMED>;
  readonly name: string;
  readonly body: string;
}

async function sendEvent(event: Event, sending: Sending): Promise<Answers> {
  const { trigger, name, body } = event;
  const { outside } = sending;
  switch (trigger) {
    case 'files':
      outside.putFile(`${name}.txt`, body);
      await sleep(sending.random.below(PAUSE_MS));
      return toAnswers(outside.putFile(`${name}.txt`, body));
    case 'rows':
      return toAnswers(await outside.insertRow(body));
    case 'messages':
      await outside.publish(name, body);
      return toAnswers(await outside.publish(name, body));
    case 'ordered':
    case 'merged':
    case 'events':
    case 'api': {
      const answered: string[] = [];
      while (answered.length < ANSWERS) answered.push(await requestRun({ ...event, trigger }, sending));
      return toAnswers(body, answered);
    }
  }
}

function toAnswers(body: string, answered: readonly string[] = []): Answers {
  return { bodySha256: createHash('sha256').update(body).digest('hex'), answered };
}

type Requested = Event & { readonly trigger: 'ordered' | 'merged' | 'events' | 'api' };

/** @returns the id of its delivery */
async function requestRun({ trigger, name, body }: Requested, { service, endAtMs }: Sending): Promise<string> {
  const what = `the event ${name}`;
  return await repeatUntil(what, endAtMs, async () => {
    const sent =
      trigger === 'api'
        ? sendTo(service, 'tcp', `deployments/${DEPLOYMENT}/runs`, {
            method: 'POST',
            headers: { 'idempotency-key': name },
            body: JSON.stringify({ input: body }),
          })
        : sendHook(service, trigger, name, trigger === 'events' ? writeBatch(name, body) : body);
    const answer = await awaitAnswer(sent);
    if (!(await isAccepted(answer, [202], what))) return null;
    const { delivery, deliveries = [] } = JSON.parse(await readText(answer)) as Accepted;
    return delivery ?? deliveries[0]!;
  });
}

interface Accepted {
  readonly delivery?: string;
  /** Those of a batch. */
  readonly deliveries?: readonly string[];
}

/** A batch of CloudEvents is committed as a whole. */
function writeBatch(id: string, data: string): string {
  return `[{"specversion":"1.0","id":${JSON.stringify(id)},"source":"/storm","type":"storm","data":${data}}]`;
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
      'content-type': trigger === 'events' ? 'application/cloudevents-batch+json' : 'application/json',
      'x-github-event': 'push',
      'x-github-delivery': name,
      'x-hub-signature-256': `sha256=${createHmac('sha256', SECRET).update(body).digest('hex')}`,
    },
  });
  sent.on('timeout', () => sent.destroy(new UnexpectedAnswer(`the event ${name}: no byte for ${SILENCE_MS} ms`)));
  sent.end(body);
  return sent;
}

/** Past times of the schedule, which no round asks for twice. */
let latestMs = Date.UTC(2026, 0, 1);

/** A person asks for past times of the schedule, all of them at once. */
async function sendTimes({ key, events }: Sequence, { service, endAtMs }: Sending): Promise<readonly SentEvent[]> {
  const times = Array.from({ length: events }, () => (latestMs += SCHEDULE_MS));
  const what = `the times of ${key}`;
  const ask = async (): Promise<readonly string[]> => {
    const answer = await repeatUntil(what, endAtMs, async () => {
      const range = { from: new Date(times[0]!).toISOString(), to: new Date(times.at(-1)!).toISOString() };
      const path = `deployments/${DEPLOYMENT}/schedules/${TIMED}/backfill`;
      const sent = sendTo(service, 'tcp', path, { method: 'POST', body: JSON.stringify(range) });
      const got = await awaitAnswer(sent);
      if (!(await isAccepted(got, [202], what))) return null;
      return JSON.parse(await readText(got)) as { readonly times: readonly { readonly delivery: string }[] };
    });
    return answer.times.map(({ delivery }) => delivery);
  };
  const answers: (readonly string[])[] = [];
  while (answers.length < ANSWERS) answers.push(await ask());
  return times.map((atMs, index) =>
    describeTime(
      atMs,
      answers.map((ids) => ids[index] ?? 'absent in an answer'),
    ),
  );
}

/** The event of a time of the schedule. */
export function describeTime(atMs: number, answered: readonly string[] = []): SentEvent {
  const payload = makeScheduledPayload({ trigger: TIMED, timezone: 'UTC' }, atMs);
  const name = `the time ${payload.scheduledAt}`;
  return { name, trigger: TIMED, orderKey: null, ...toAnswers(JSON.stringify(payload), answered) };
}
