/** Compares the schedules on the server of Temporal with the rows of the database, and repairs them. */
import { hasSameTimes } from '../../client/schedules/same-times.ts';
import { nameSchedule, type WantedSchedule, writeNote } from '../../client/schedules/schedule-options.ts';
import type { ListedSchedule, ScheduleServer } from '../../client/schedules/schedule-server.ts';
import type { ScheduleSource } from '../../domain/delivery/trigger.ts';
import type { TriggerStore } from '../../store/triggers.ts';
import { SCHEDULE_WORKFLOW_TYPE } from '../../workflows/messages.ts';

const PAGE = 200;
/** Rows may change at any moment. */
const MOST_ROUNDS = 3;
const MOST_KNOWN_VERSIONS = 5_000;

type Rows = Pick<TriggerStore, 'deployments' | 'schedules'>;
type NamedSource = Pick<WantedSchedule, 'trigger' | 'source'>;

/** Versions never change, so that a look at many deployments reads few of them. */
export type KnownVersions = Map<string, readonly NamedSource[]>;

export interface Repairs {
  readonly put: number;
  readonly deleted: number;
}

export interface CompareOptions {
  /** Absent: all deployments. */
  readonly deployment?: string;
  readonly known: KnownVersions;
  /** Chooses the ids whose whole options are read. Absent: only the list of the server is. */
  readonly takeTurn?: TakeTurn;
}

export type TakeTurn = (ids: readonly string[]) => readonly string[];

/**
 * Each call chooses the next ids, and begins again behind the last one: to read a schedule is a call of the server.
 * @param most  the ids of one call
 */
export function createTurns(most: number): TakeTurn {
  let last = '';
  return (ids) => {
    const sorted = ids.toSorted();
    const later = sorted.filter((id) => id > last);
    const turn = [...later, ...sorted.slice(0, sorted.length - later.length)].slice(0, most);
    last = turn.at(-1) ?? '';
    return turn;
  };
}

/** @throws errors of the SDK and of the store; a later call continues */
export async function compareSchedules(
  rows: Rows,
  server: ScheduleServer,
  { deployment, known, takeTurn = () => [] }: CompareOptions,
): Promise<Repairs> {
  const owner = await rows.schedules.findOwner();
  let put = 0;
  let deleted = 0;
  for (let round = 0; round < MOST_ROUNDS; round += 1) {
    // The list is read before the rows: a schedule in it was made after its row, so that a missing row is no new one.
    const listed = new Map((await server.list(owner, deployment)).map((each) => [each.id, each]));
    const wanted = await listWanted(rows, { owner, deployment, known });
    const missing = [...listed.keys()].filter((id) => !wanted.has(id));
    for (const id of missing) await server.delete(id);
    const different = new Map([...wanted].filter(([id, each]) => !isAsWanted(listed.get(id), each)));
    for (const each of different.values()) await server.put(each);
    // Later, because a new schedule must not wait for this.
    for (const id of round === 0 ? takeTurn([...wanted.keys()]) : []) {
      if (different.has(id) || (await server.hasOptions(wanted.get(id)!))) continue;
      different.set(id, wanted.get(id)!);
      await server.put(wanted.get(id)!);
    }
    put += different.size;
    deleted += missing.length;
    if (different.size + missing.length === 0 || !(await hasChanged(rows, wanted, { owner, deployment, known }))) break;
  }
  return { put, deleted };
}

interface Asked {
  readonly owner: string;
  readonly deployment: string | undefined;
  readonly known: KnownVersions;
}

async function hasChanged(rows: Rows, before: ReadonlyMap<string, WantedSchedule>, asked: Asked): Promise<boolean> {
  const writeAll = (wanted: ReadonlyMap<string, WantedSchedule>): string =>
    JSON.stringify([...wanted].map(([id, each]) => [id, writeNote(each)]));
  return writeAll(before) !== writeAll(await listWanted(rows, asked));
}

/** By the id on the server. */
async function listWanted(
  rows: Rows,
  { owner, deployment, known }: Asked,
): Promise<ReadonlyMap<string, WantedSchedule>> {
  const notes = new Map(
    (await rows.schedules.listPauses()).map(({ deployment: of, trigger, note }) => [
      JSON.stringify([of, trigger]),
      note,
    ]),
  );
  const wanted = new Map<string, WantedSchedule>();
  for await (const { name, version, isPaused } of readDeployments(rows, deployment ?? null))
    for (const { trigger, source } of await readSources(rows, name, version, known)) {
      const pause = notes.get(JSON.stringify([name, trigger]));
      const note = pause ?? (isPaused ? `the deployment ${name} is paused` : '');
      const each = { owner, deployment: name, trigger, source, isPaused: isPaused || pause !== undefined, note };
      wanted.set(nameSchedule(each), each);
    }
  return wanted;
}

/** @param only  null: all of them */
export async function* readDeployments({ deployments }: Pick<Rows, 'deployments'>, only: string | null) {
  if (only !== null) {
    const row = await deployments.find(only);
    if (row !== null) yield row;
    return;
  }
  for (let after: string | undefined; ;) {
    const page = await deployments.list(PAGE, after);
    yield* page;
    if (page.length < PAGE) return;
    after = page.at(-1)!.name;
  }
}

async function readSources(
  { deployments }: Rows,
  name: string,
  version: number,
  known: KnownVersions,
): Promise<readonly NamedSource[]> {
  const key = JSON.stringify([name, version]);
  const before = known.get(key);
  if (before !== undefined) return before;
  const row = await deployments.findVersion(name, version);
  const sources = (row?.triggers ?? []).flatMap(({ name: trigger, source }) =>
    source.kind === 'schedule' ? [{ trigger, source: source satisfies ScheduleSource }] : [],
  );
  if (known.size >= MOST_KNOWN_VERSIONS) known.clear();
  known.set(key, sources);
  return sources;
}

/** The hash in the note covers what the list does not contain, unless a person has changed that on the server. */
function isAsWanted(listed: ListedSchedule | undefined, wanted: WantedSchedule): boolean {
  return (
    listed !== undefined &&
    listed.note === writeNote(wanted) &&
    listed.isPaused === wanted.isPaused &&
    listed.workflowType === SCHEDULE_WORKFLOW_TYPE &&
    hasSameTimes(listed.times, wanted.source)
  );
}
