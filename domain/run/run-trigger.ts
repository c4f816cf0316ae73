/** The delivery of a deployment that started a run. */
export interface RunTrigger extends EventIds {
  /** The name of the deployment. */
  readonly deployment: string;
  /** The number of its version. */
  readonly version: number;
  /** The id of the delivery. */
  readonly delivery: string;
}

/** The ids by which other systems know the event of a delivery. */
export interface EventIds {
  /** W3C trace context. Absent: the event has no trace. */
  readonly traceparent?: string;
  /** Absent: it is not an event of CloudEvents. */
  readonly cloudEvent?: { readonly source: string; readonly id: string };
}

/** Returns the ids in a value that another process has written; wrong values are left out. */
export function pickEventIds(value: unknown): EventIds {
  const { traceparent, cloudEvent } = (value ?? {}) as Readonly<Record<string, unknown>>;
  const { source, id } = (cloudEvent ?? {}) as Readonly<Record<string, unknown>>;
  return {
    ...(typeof traceparent === 'string' ? { traceparent } : {}),
    ...(typeof source === 'string' && typeof id === 'string' ? { cloudEvent: { source, id } } : {}),
  };
}
