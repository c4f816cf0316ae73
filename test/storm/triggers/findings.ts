/** What is wrong with the deliveries of a round. */

/** A row of `GET /api/v1/deliveries`. */
export interface ListedDelivery {
  readonly id: string;
  readonly trigger: string;
  readonly state: string;
  readonly runId: string | null;
  readonly runEndedAtMs: number | null;
  readonly into: string | null;
  readonly code: string | null;
  readonly bodySha256: string;
  /** Null: its trigger is no schedule. */
  readonly schedule: { readonly atMs: number; readonly isAsked: boolean } | null;
}

/** An event that was sent until its sender had an answer, at least once. */
export interface SentEvent {
  readonly name: string;
  readonly trigger: string;
  readonly bodySha256: string;
  /** Events with equal keys start in the order of their first answers. Null: no order. */
  readonly orderKey: string | null;
  /** The ids of the deliveries that the answers had. None: the service reads the source itself. */
  readonly answered: readonly string[];
}

/** A run as its log and its records have it. */
export interface FoundRun {
  readonly types: readonly string[];
  readonly state: string | null;
  readonly startedAtNs: bigint;
}

const OPEN: readonly string[] = ['accepted', 'held', 'starting'];

export const isOpen = ({ state }: Pick<ListedDelivery, 'state'>): boolean => OPEN.includes(state);

/** Returns the rows of the deliveries of an event. */
export function listOwn<Row extends Pick<ListedDelivery, 'trigger' | 'bodySha256'>>(
  { trigger, bodySha256 }: SentEvent,
  rows: readonly Row[],
): readonly Row[] {
  return rows.filter((row) => row.trigger === trigger && row.bodySha256 === bodySha256);
}

/** @param rows  the oldest first */
export function findDeliveryFaults(events: readonly SentEvent[], rows: readonly ListedDelivery[]): readonly string[] {
  const faults = rows.filter(isOpen).map(({ id, state }) => `the delivery ${id} is ${state} and has no outcome`);
  const ids = new Set(rows.map(({ id }) => id));
  const started = new Set(rows.filter(({ state }) => state === 'started').map(({ id }) => id));
  for (const event of events) {
    const { name, answered } = event;
    const own = listOwn(event, rows);
    for (const id of answered) if (!ids.has(id)) faults.push(`${name}: the accepted delivery ${id} is lost`);
    const first = own.filter(({ state }) => state !== 'deduplicated');
    if (first.length !== 1) faults.push(`${name}: ${first.length} of its ${own.length} deliveries are no duplicates`);
    for (const { id, state, code } of first)
      if (state !== 'started' && state !== 'merged') faults.push(`${name}: the delivery ${id} is ${state} (${code})`);
  }
  for (const { id, state, into } of rows) {
    if (state === 'merged' && !started.has(into!)) faults.push(`${id} is merged into ${into}, which has no run`);
    if (state === 'deduplicated' && !ids.has(into!)) faults.push(`${id} is a duplicate of ${into}, which is absent`);
  }
  return faults;
}

/** A half of a file, a row that a transaction took back, and a time that no schedule has would be such deliveries. */
export function findStrayFaults(events: readonly SentEvent[], rows: readonly ListedDelivery[]): readonly string[] {
  const known = new Set(events.flatMap((event) => listOwn(event, rows).map(({ id }) => id)));
  return rows
    .filter(({ id }) => !known.has(id))
    .map(({ id, trigger }) => `the delivery ${id} of ${trigger} belongs to no event`);
}

/**
 * @param rows  the oldest first
 * @param runs  all runs of the round by their id
 */
export function findRunFaults(
  events: readonly SentEvent[],
  rows: readonly ListedDelivery[],
  runs: ReadonlyMap<string, FoundRun>,
): readonly string[] {
  const faults: string[] = [];
  const started = rows.filter(({ state }) => state === 'started');
  const known = new Set(started.map(({ runId }) => runId));
  for (const runId of runs.keys()) if (!known.has(runId)) faults.push(`the run ${runId} belongs to no delivery`);
  for (const { id, runId } of started) {
    const run = runs.get(runId!);
    if (run === undefined) {
      faults.push(`${id}: its run ${runId} does not exist`);
      continue;
    }
    for (const type of ['run-admitted', 'run-finished']) {
      const count = run.types.filter((each) => each === type).length;
      if (count !== 1) faults.push(`${runId}: it has ${type} ${count} times`);
    }
    if (run.state !== 'succeeded') faults.push(`${runId}: it is ${run.state}`);
  }
  return [...faults, ...findOrderFaults(events, started, runs)];
}

function findOrderFaults(
  events: readonly SentEvent[],
  started: readonly ListedDelivery[],
  runs: ReadonlyMap<string, FoundRun>,
): readonly string[] {
  const keys = new Set(events.flatMap(({ orderKey }) => orderKey ?? []));
  return [...keys].flatMap((key) => {
    const sent = events.filter(({ orderKey }) => orderKey === key);
    const ofKey = sent.flatMap((event) => {
      const [row] = listOwn(event, started);
      const run = row === undefined ? undefined : runs.get(row.runId!);
      return run === undefined ? [] : [{ name: event.name, startedAtNs: run.startedAtNs }];
    });
    const inTime = ofKey.toSorted((one, other) => (one.startedAtNs < other.startedAtNs ? -1 : 1));
    const [wanted, found] = [ofKey, inTime].map((all) => all.map(({ name }) => name).join(', '));
    return wanted === found ? [] : [`the key ${key}: sent ${wanted}; started ${found}`];
  });
}
