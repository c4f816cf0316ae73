/**
 * Writes an event of a run as an event of CloudEvents 1.0 in the structured form. Names of types and of attributes are
 * stable. This module loads no library, and its result is the same for the same facts.
 */

/** The content type of the structured form. */
export const CLOUD_EVENT_TYPE = 'application/cloudevents+json; charset=utf-8';

/** The states of runs and deployments that events report. */
export const RUN_EVENT_STATES = [
  'succeeded',
  'failed',
  'cancelled',
  'terminated',
  'recovered',
  'asking',
  'late',
  'waiting_long',
  'budget',
] as const;
export type RunEventState = (typeof RUN_EVENT_STATES)[number];

export interface RunEventFacts {
  /** Unique for the deployment. The same event that is sent again has the same id. At most 1,024 characters. */
  readonly id: string;
  readonly deployment: string;
  readonly state: RunEventState;
  /** Null: the event is not about one run, such as a schedule that did not fire. */
  readonly runId: string | null;
  readonly atMs: number;
  /** W3C trace context of the delivery that started the run; null: none. */
  readonly traceparent: string | null;
  /** JSON. It must contain no value of a secret. */
  readonly data: unknown;
}

export interface WrittenEvent {
  readonly contentType: string;
  readonly body: string;
}

/** Such as `dev.voidbox.run.waiting_long`. */
export function nameEventType(state: RunEventState): string {
  return `dev.voidbox.run.${state}`;
}

/** A path and no URL: a service may have several addresses, or none. */
export function nameEventSource(deployment: string): string {
  return `/deployments/${encodeURIComponent(deployment)}`;
}

/**
 * The pair of `source` and `id` is unique, so a receiver finds an event that was sent twice.
 * @throws TypeError for data that JSON cannot write
 */
export function writeRunEvent({ id, deployment, state, runId, atMs, traceparent, data }: RunEventFacts): WrittenEvent {
  const event = {
    specversion: '1.0',
    id,
    source: nameEventSource(deployment),
    type: nameEventType(state),
    ...(runId === null ? {} : { subject: runId }),
    time: new Date(atMs).toISOString(),
    datacontenttype: 'application/json',
    ...(traceparent === null ? {} : { traceparent }),
    data,
  };
  return { contentType: CLOUD_EVENT_TYPE, body: JSON.stringify(event) };
}
