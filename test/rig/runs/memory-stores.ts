/**
 * A second kind of store: all data of runs, in the memory of this process. It proves that the users of a store need no
 * files, and it passes the same tables as the file store (`memory-stores.test.ts`).
 */
import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ArtifactStore } from '../../../activities/ports/artifacts.ts';
import type { EventLog } from '../../../activities/ports/event-log.ts';
import type { HostMarks } from '../../../activities/ports/host-marks.ts';
import type { HandedOver, HostVariables } from '../../../activities/ports/host-variables.ts';
import type { IndexedRun, RunIndex, RunPosition, RunQuery } from '../../../activities/ports/run-index.ts';
import type { DamagedRun, RunInspector } from '../../../activities/ports/run-inspector.ts';
import type { PruneOptions, PruneReport, RunPruner } from '../../../activities/ports/run-pruner.ts';
import type { RunReader } from '../../../activities/ports/run-reader.ts';
import type { RunRecords } from '../../../activities/ports/run-records.ts';
import { CodedError, isCodedError } from '../../../domain/errors/coded-error.ts';
import type { NewRunEvent, RunEvent } from '../../../domain/run/event.ts';
import { toStorableEvent } from '../../../domain/run/event-limits.ts';
import { isRunId, runIdProblem } from '../../../domain/run/run-id.ts';
import { readAllRuns } from '../../../store/every-run.ts';
import type { Stores } from '../../../store/stores.ts';
import { ARTIFACT_GRACE_MS, NAMING_MS } from '../../../store/prune-times.ts';

const NAME_BYTES = 220;
const MAIN_RECORDS = ['client', 'plan', 'admission', 'manifest'];
const FIRST_RECORDS: ReadonlySet<string> = new Set(['client', 'source', 'input', 'plan', 'admission']);

class MemoryRun {
  readonly events: RunEvent[] = [];
  readonly ids = new Set<string>();
  readonly cursors = new Map<string, number>();
  readonly fences = new Map<string, number>();
  /** As JSON, so that a reader never gets an object of the writer. */
  readonly records = new Map<string, string>();
  readonly marks = new Map<string, string>();
  variables: string | null = null;
}

interface MemoryArtifact {
  readonly bytes: Uint8Array;
  /** The last time at which something relied on it. */
  atMs: number;
}

/** The data of all stores that are opened on it, as in a database. */
export class MemoryPlace {
  readonly runs = new Map<string, MemoryRun>();
  readonly aside = new Map<string, MemoryRun>();
  readonly artifacts = new Map<string, MemoryArtifact>();
  /** Appends that changed something. */
  appends = 0;
  /** Readers that wait for more events. */
  readonly waiting = new Set<() => void>();

  /** @throws CodedError `store/io`, `store/damaged` */
  checkId(runId: string): void {
    const problem = runIdProblem(runId);
    if (problem !== null) throw new CodedError('store/io', `${JSON.stringify(runId.slice(0, 160))}: ${problem}`);
    this.refuseSetAside(runId);
  }

  refuseSetAside(runId: string): void {
    if (this.aside.has(runId)) throw damaged(`run ${runId} was set aside`);
  }

  /** For a writer: the run exists after this call. */
  make(runId: string): MemoryRun {
    this.checkId(runId);
    const run = this.runs.get(runId) ?? new MemoryRun();
    this.runs.set(runId, run);
    return run;
  }

  hasEvents(runId: string): boolean {
    return (this.runs.get(runId)?.events.length ?? 0) > 0;
  }

  wake(): void {
    for (const waiting of this.waiting) waiting();
  }
}

export function openMemoryStores(place: MemoryPlace): Stores {
  const index = createIndex(place);
  const records = createRecords(place);
  const { events, close } = createEventLog(place);
  return {
    events,
    reader: createReader(place),
    index,
    artifacts: createArtifacts(place),
    records,
    marks: createMarks(place),
    hostVariables: createHostVariables(place),
    inspector: createInspector(place, records),
    pruner: createPruner(place, index),
    local: null,
    close,
  };
}

function damaged(message: string): CodedError {
  return new CodedError('store/damaged', message);
}

function cursorKey(execKey: string, stream: string): string {
  return `${stream} ${execKey}`;
}

function createEventLog(place: MemoryPlace): { readonly events: EventLog; close(): Promise<void> } {
  let isClosed = false;
  const append = (
    runId: string,
    given: readonly NewRunEvent[],
    writer?: { readonly execKey: string; readonly fence: number },
  ): number => {
    const events = given.map(toStorableEvent);
    if (isClosed) throw new Error(`run ${runId}: its log is used after the store was closed`);
    const run = place.make(runId);
    const fence = writer === undefined ? -1 : (run.fences.get(writer.execKey) ?? -1);
    if (writer !== undefined && writer.fence < fence)
      throw new CodedError('fence/stale', `a newer attempt (fence ${fence}) continues ${writer.execKey}`);
    const fresh = freshOf(run, events);
    const raisesFence = writer !== undefined && writer.fence > fence;
    if (fresh.length === 0 && !raisesFence) return 0;
    place.appends += 1;
    if (raisesFence) run.fences.set(writer.execKey, writer.fence);
    for (const event of fresh) {
      const { body } = event;
      if (body.type === 'output') run.cursors.set(cursorKey(body.execKey, body.stream), body.to);
      else run.ids.add(event.id);
      run.events.push({ ...event, seq: run.events.length + 1 });
    }
    place.wake();
    return fresh.length;
  };
  return {
    events: {
      append: async (runId, events, writer) => append(runId, events, writer),
      async find(runId, id) {
        const found = place.runs.get(runId)?.events.find((event) => event.id === id && event.body.type !== 'output');
        return found ?? null;
      },
      outputCursor: async (runId, execKey, stream) =>
        place.runs.get(runId)?.cursors.get(cursorKey(execKey, stream)) ?? 0,
    },
    async close() {
      isClosed = true;
      // Readers that wait for an append get the end of the store first.
      await nextTurn();
    },
  };
}

function freshOf(run: MemoryRun, events: readonly NewRunEvent[]): readonly NewRunEvent[] {
  const ids = new Set(run.ids);
  const cursors = new Map(run.cursors);
  return events.filter(({ id, body }) => {
    if (body.type !== 'output') return !ids.has(id) && ids.add(id);
    const key = cursorKey(body.execKey, body.stream);
    const cursor = cursors.get(key) ?? 0;
    if (body.to <= cursor) return false;
    if (body.from < cursor)
      throw new Error(`output ${body.from}..${body.to} overlaps ${cursor}: continue from outputCursor`);
    cursors.set(key, body.to);
    return true;
  });
}

function createReader(place: MemoryPlace): RunReader {
  async function* read(runId: string, after: number, withOutput: boolean): AsyncGenerator<RunEvent> {
    const events = place.runs.get(runId)?.events ?? [];
    for (let at = after; at < events.length; at += 1)
      if (withOutput || events[at]!.body.type !== 'output') yield events[at]!;
  }
  async function* follow(
    runId: string,
    after: number,
    signal: AbortSignal,
    withOutput: boolean,
  ): AsyncGenerator<RunEvent> {
    let seq = after;
    while (!signal.aborted) {
      for await (const event of read(runId, seq, true)) {
        seq = event.seq;
        if (withOutput || event.body.type !== 'output') yield event;
        if (event.body.type === 'run-finished' || signal.aborted) return;
      }
      if (place.runs.get(runId)?.events.slice(0, seq).some(isEnd) === true) return;
      await untilMore(place, signal, () => (place.runs.get(runId)?.events.length ?? 0) > seq);
    }
  }
  return {
    read: (runId, after, options) => read(runId, after, options?.output ?? true),
    follow: (runId, after, signal, options) => follow(runId, after, signal, options?.output ?? true),
  };
}

function isEnd({ body }: RunEvent): boolean {
  return body.type === 'run-finished';
}

function untilMore({ waiting }: MemoryPlace, signal: AbortSignal, hasMore: () => boolean): Promise<void> {
  return new Promise((resolve) => {
    const look = (): void => {
      if (!signal.aborted && !hasMore()) return;
      waiting.delete(look);
      signal.removeEventListener('abort', look);
      resolve();
    };
    waiting.add(look);
    signal.addEventListener('abort', look);
    look();
  });
}

function createIndex(place: MemoryPlace): RunIndex {
  const inOrder = (): readonly IndexedRun[] =>
    [...place.runs]
      .filter(([, { events }]) => events.length > 0)
      .map(([runId, { events }]) => indexed(runId, events))
      .toSorted((one, other) => order(positionOf(one), positionOf(other)));
  return {
    async list({ state, name, sinceMs, before, limit }: RunQuery) {
      if (!(limit >= 1)) throw new RangeError(`a page of runs has at least 1, not ${limit}`);
      const behind = inOrder().filter((run) => before === undefined || order(before, positionOf(run)) < 0);
      const found = behind.filter(
        (run) =>
          (state === undefined || run.state === state) &&
          (name === undefined || run.name === name) &&
          (sinceMs === undefined || (run.startedAtMs ?? 0) >= sinceMs),
      );
      const runs = found.slice(0, limit);
      return { runs, next: found.length > limit ? positionOf(runs.at(-1)!) : null };
    },
    openRuns: async () => inOrder().flatMap(({ runId, state }) => (state === 'running' ? [runId!] : [])),
    async listIds({ prefix, isWanted = () => true, before, limit }) {
      if (!(limit >= 1)) throw new RangeError(`a page of ids has at least 1, not ${limit}`);
      const found = inOrder().filter(
        (run) =>
          run.label.startsWith(prefix) &&
          isWanted(run.label) &&
          (before === undefined || order(before, positionOf(run)) < 0),
      );
      const page = found.slice(0, limit);
      return { ids: page.map(({ label }) => label), next: found.length > limit ? positionOf(page.at(-1)!) : null };
    },
    idsFrom: async (prefix) => inOrder().flatMap(({ label }) => (label.startsWith(prefix) ? [label] : [])),
    has: async (runId) => isRunId(runId) && place.hasEvents(runId),
  };
}

function indexed(runId: string, events: readonly RunEvent[]): IndexedRun {
  const [first] = events;
  const began = first?.body.type === 'run-admitted' ? first.body.startedAtMs : undefined;
  const run = { runId, label: runId, startedAtMs: began ?? first?.atMs ?? null, endedAtMs: null, problem: null };
  return events.reduce<IndexedRun>(
    (sum, { atMs, body }) => {
      if (body.type === 'run-admitted') return { ...sum, name: body.name };
      return body.type === 'run-finished' ? { ...sum, state: body.outcome.state, endedAtMs: atMs } : sum;
    },
    { ...run, name: null, state: 'running' },
  );
}

function positionOf({ startedAtMs, label }: IndexedRun): RunPosition {
  return { startedAtMs: startedAtMs ?? 0, label };
}

function order(one: RunPosition, other: RunPosition): number {
  return other.startedAtMs - one.startedAtMs || (one.label < other.label ? 1 : one.label > other.label ? -1 : 0);
}

function createArtifacts({ artifacts }: MemoryPlace): ArtifactStore {
  return {
    async put(chunks, mediaType) {
      const parts: Uint8Array[] = [];
      for await (const chunk of chunks) parts.push(Uint8Array.from(chunk));
      const bytes = Buffer.concat(parts);
      const sha256 = createHash('sha256').update(bytes).digest('hex');
      artifacts.set(sha256, { bytes, atMs: Date.now() });
      return { sha256, sizeBytes: bytes.length, mediaType };
    },
    async claim({ sha256, sizeBytes }) {
      const found = artifacts.get(sha256);
      if (found?.bytes.length !== sizeBytes) return false;
      found.atMs = Date.now();
      return true;
    },
    async *open({ sha256, sizeBytes }, offset = 0) {
      const found = artifacts.get(sha256);
      if (found?.bytes.length !== sizeBytes) throw damaged(`artifact ${sha256} with ${sizeBytes} bytes does not exist`);
      if (offset < sizeBytes) yield found.bytes.subarray(offset);
    },
  };
}

/** @throws CodedError `store/io` */
function checkName(runId: string, name: string): void {
  const length = encodeURIComponent(name).length;
  if (length === 0 || length > NAME_BYTES)
    throw new CodedError('store/io', `a record of run ${runId} needs a name of 1 to ${NAME_BYTES} bytes`);
}

function parseRecord(runId: string, name: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new CodedError('store/damaged', `record ${name} of run ${runId} is not JSON`, { cause: error });
  }
}

function createRecords(place: MemoryPlace): RunRecords {
  return {
    async put(runId, name, value) {
      checkName(runId, name);
      place.make(runId).records.set(name, JSON.stringify(value));
    },
    async create(runId, name, value) {
      checkName(runId, name);
      const { records } = place.make(runId);
      if (records.has(name)) return false;
      records.set(name, JSON.stringify(value));
      return true;
    },
    async get(runId, name) {
      checkName(runId, name);
      place.checkId(runId);
      const text = place.runs.get(runId)?.records.get(name);
      return text === undefined ? null : parseRecord(runId, name, text);
    },
    async drop(runId, name) {
      place.runs.get(runId)?.records.delete(name);
    },
  };
}

function createMarks(place: MemoryPlace): HostMarks {
  const put = async (runId: string, name: string, value: unknown): Promise<void> => {
    place.make(runId).marks.set(name, JSON.stringify(value));
  };
  const get = async (runId: string, name: string): Promise<unknown> => {
    const text = place.runs.get(runId)?.marks.get(name);
    return text === undefined ? null : parseRecord(runId, name, text);
  };
  const drop = async (runId: string, name: string): Promise<void> => {
    place.runs.get(runId)?.marks.delete(name);
  };
  return { put, get, drop, putOfVm: put, getOfVm: get };
}

function createHostVariables(place: MemoryPlace): HostVariables {
  const read = (runId: string): HandedOver =>
    JSON.parse(place.runs.get(runId)?.variables ?? '{"variables":{},"startKey":null}') as HandedOver;
  return {
    async put(runId, variables, startKey) {
      place.make(runId).variables = JSON.stringify({ variables, startKey: startKey ?? null });
    },
    get: async (runId) => read(runId).variables,
    read: async (runId) => read(runId),
    async drop(runId) {
      const run = place.runs.get(runId);
      if (run !== undefined) run.variables = null;
    },
  };
}

function createInspector(place: MemoryPlace, records: RunRecords): RunInspector {
  const problemOf = async (runId: string, names: Iterable<string>): Promise<CodedError | null> => {
    try {
      for (const name of names) await records.get(runId, name);
      return null;
    } catch (error) {
      if (isCodedError(error)) return error;
      throw error;
    }
  };
  return {
    async findDamaged() {
      const found: DamagedRun[] = [];
      for (const [runId, run] of [...place.runs].toSorted(([one], [other]) => (one < other ? -1 : 1))) {
        const problem = await problemOf(runId, run.records.keys());
        if (problem !== null) found.push({ runId, label: runId, place: `memory: ${runId}`, problem });
      }
      return found;
    },
    async checkMainRecords(runId) {
      const problem = await problemOf(runId, MAIN_RECORDS);
      if (problem !== null) throw problem;
    },
    async mayBeBeginning({ runId }) {
      const run = runId === null ? undefined : place.runs.get(runId);
      if (run === undefined || run.events.length > 0) return false;
      return [...run.records.keys()].every((name) => FIRST_RECORDS.has(name));
    },
    async setAside({ label }) {
      const run = place.runs.get(label);
      if (run === undefined) throw new CodedError('store/io', `run ${label} is no longer there`);
      place.runs.delete(label);
      place.aside.set(label, run);
      return `memory, set aside: ${label}`;
    },
    refuseSetAside: async (runId) => place.refuseSetAside(runId),
  };
}

function createPruner(place: MemoryPlace, index: RunIndex): RunPruner {
  const removeRuns = async (options: PruneOptions): Promise<PruneReport['removed']> => {
    const { olderThanMs, keepLast, nowMs, dryRun } = options;
    if (olderThanMs === null && keepLast === null) return [];
    const ended: { readonly runId: string; readonly atMs: number }[] = [];
    for await (const { runId, endedAtMs } of readAllRuns(index))
      if (runId !== null && endedAtMs !== null) ended.push({ runId, atMs: endedAtMs });
    ended.sort((one, other) => one.atMs - other.atMs || (one.runId < other.runId ? -1 : 1));
    const beyond = keepLast === null ? ended.length : Math.max(0, ended.length - keepLast);
    const before = olderThanMs === null ? Infinity : nowMs - olderThanMs;
    return ended
      .filter(({ atMs }, at) => at < beyond && atMs < before)
      .flatMap(({ runId }) => {
        const run = place.runs.get(runId);
        if (run === undefined) return [];
        if (!dryRun) place.runs.delete(runId);
        return [{ runId, sizeBytes: textOf(run).length }];
      });
  };
  return {
    async prune(options) {
      const { artifactsNow = false, dryRun, nowMs } = options;
      const removed = await removeRuns(options);
      const gone = new Set(removed.map(({ runId }) => runId));
      const openSinceMs: number[] = [];
      for await (const { startedAtMs, endedAtMs } of readAllRuns(index))
        if (endedAtMs === null && startedAtMs !== null) openSinceMs.push(startedAtMs);
      const youngestMs = artifactsNow
        ? Math.min(dryRun ? nowMs : nowMs - NAMING_MS, ...openSinceMs)
        : nowMs - ARTIFACT_GRACE_MS;
      const kept = [...place.runs].filter(([runId]) => !gone.has(runId)).map(([, run]) => run);
      const texts = [...kept, ...place.aside.values()].map(textOf);
      const garbage = { artifacts: 0, artifactBytes: 0, youngArtifacts: 0, youngArtifactBytes: 0 };
      for (const [sha256, { bytes, atMs }] of place.artifacts) {
        if (texts.some((text) => text.includes(sha256))) continue;
        if (atMs >= youngestMs) {
          garbage.youngArtifacts += 1;
          garbage.youngArtifactBytes += bytes.length;
          continue;
        }
        if (!dryRun) place.artifacts.delete(sha256);
        garbage.artifacts += 1;
        garbage.artifactBytes += bytes.length;
      }
      const runBytes = removed.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
      return { runs: [...gone], removed, runBytes, damaged: [], ...garbage };
    },
  };
}

function textOf({ events, records }: MemoryRun): string {
  return JSON.stringify(events) + [...records.values()].join('\n');
}
