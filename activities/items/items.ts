/** The items of a stage: their list, the input of each command, and their common result. */
import { Buffer } from 'node:buffer';
import { CodedError, isCodedError } from '../../domain/errors/coded-error.ts';
import { type DataRef, type EachPlan, ISOLATION_LEVELS, PLAN_LIMITS } from '../../domain/plan/plan.ts';
import { parseExecKey } from '../../domain/run/attempt.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { NewRunEvent, RunEventBody } from '../../domain/run/event.ts';
import { type InstancePath, type InstanceStep, formatInstance, formatStageName } from '../../domain/run/instance.ts';
import type { StageFailure, StageResult, VmFacts } from '../../domain/run/stage-result.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { type ExactJson, readExactJson, writeExactJson } from '../../domain/units/exact-json.ts';
import { describeNotJson } from '../../domain/security/not-json.ts';
import type { UpstreamOutputs } from '../contract.ts';
import type { ActivityDeps } from '../deps.ts';
import { toStageFailure } from '../failure.ts';
import { withHeartbeat } from '../heartbeat.ts';
import type { EndsOfList } from './ends-of-lists.ts';
import { mergeItems } from './merge-outputs.ts';
import type { ArtifactStore } from '../ports/artifacts.ts';
import type { RunRecords } from '../ports/run-records.ts';
import type { StageItem } from '../calls/requests.ts';
import { readResult, writeResult } from '../attempt/record.ts';
import { valueAt } from '../../domain/units/mapping.ts';
import { quote } from '../../domain/units/quote.ts';

export interface EndItemsRequest {
  readonly runId: string;
  readonly stage: string;
  /** The item that contains the list; empty: the run itself contains it. */
  readonly instance: InstancePath;
  readonly attempt: number;
  readonly execKey: string;
  readonly each: EachPlan;
  /** The most items of the list. */
  readonly mostItems: number;
  /** The number of lists that the stage makes in the visits of loops, for one item of each list around it. */
  readonly lists: number;
  /** True if the run was cancelled, so that items may be missing. */
  readonly cancelled: boolean;
}

export interface BeginItemsRequest extends EndItemsRequest {
  readonly upstream: Readonly<Record<string, UpstreamOutputs>>;
  readonly events: readonly NewRunEvent[];
}

/**
 * The record `items-<stage>`. From the second attempt on, the name ends with `~` and the attempt. For a list within an
 * item, `/` and the instance follow.
 */
interface ItemsRecord {
  readonly count: number;
  /** The JSON list. */
  readonly list: DataRef;
}

/** The environment of a program may have 128 KiB in one variable; a larger item is only in its file. */
const VARIABLE_BYTES = 32 * 1024;
/** The most characters of an item in a message. */
const SHOWN_CHARACTERS = 200;
/** The number of parsed lists that are kept whatever their size, and the number while they are small together. */
const MOST_LISTS = 4;
const MOST_SMALL_LISTS = 256;
/** The most lists that are remembered as begun. */
const MOST_BEGUN_LISTS = 5_000;

/** Names the list that this attempt of a stage makes. */
interface ListName {
  readonly stage: string;
  readonly instance: InstancePath;
  readonly attempt: number;
}

function recordName({ stage, instance, attempt }: ListName): string {
  const list = `items-${stage}${attempt === 1 ? '' : `~${attempt}`}`;
  return instance.length === 0 ? list : `${list}/${formatInstance(instance)}`;
}

async function recordOf(records: Pick<RunRecords, 'get'>, runId: string, list: ListName): Promise<ItemsRecord | null> {
  return ((await records.get(runId, recordName(list))) as ItemsRecord | null | undefined) ?? null;
}

/** @throws ApplicationFailure with the stage's result if there is no list */
export async function beginItems(deps: ActivityDeps, request: BeginItemsRequest): Promise<{ readonly count: number }> {
  const { runId, stage, execKey, attempt } = request;
  if (request.events.length > 0) await deps.events.append(runId, request.events);
  const earlier = await readResult(deps.events, runId, execKey);
  if (earlier?.outcome === 'failed') throw toStageFailure(earlier);
  const known = await recordOf(deps.records, runId, request);
  const items = known ?? (await storeList(deps, request, await readBoundedList(deps, request)));
  if ('code' in items) {
    const failed = await writeResult(deps.events, runId, resultOf(request, 0, { failure: items }), null, deps.now());
    throw toStageFailure(failed);
  }
  await deps.events.append(runId, [
    {
      id: EVENT_ID.attempt(execKey, 'started'),
      atMs: deps.now(),
      body: { type: 'stage-started', stage, execKey, attempt, items: items.count },
    },
  ]);
  return { count: items.count };
}

async function storeList(
  { artifacts, records }: ActivityDeps,
  request: BeginItemsRequest,
  list: readonly string[] | StageFailure,
): Promise<ItemsRecord | StageFailure> {
  if ('code' in list) return list;
  const ref = await artifacts.put(pieces(['[', list.join(','), ']']), 'application/json');
  const record: ItemsRecord = { count: list.length, list: ref };
  await records.put(request.runId, recordName(request), record);
  return record;
}

/**
 * Reads the list. Lists within items have a common limit, so that readers of the run's log can hold them.
 * @returns the JSON of each item
 */
async function readBoundedList(
  { artifacts, records }: ActivityDeps,
  request: BeginItemsRequest,
): Promise<readonly string[] | StageFailure> {
  const { runId, stage, instance, lists } = request;
  const list = await listOf(artifacts, request);
  if ('code' in list || instance.length === 0) return list;
  let around = lists;
  for (const [depth, step] of instance.entries())
    around *= (await recordOf(records, runId, listAround(step, instance.slice(0, depth))))?.count ?? 1;
  const most = Math.floor(PLAN_LIMITS.nestedItems / around);
  if (list.length <= most) return list;
  const message = `the list of ${stage} has ${list.length} items in one of ${around} items ${lists === 1 ? '' : 'and visits '}around it; at most ${most} are allowed, so that all have ${PLAN_LIMITS.nestedItems} together`;
  return { code: 'stage/bad-items', message, stderrTail: '' };
}

async function listOf(
  artifacts: ArtifactStore,
  { each: { list }, mostItems, upstream }: BeginItemsRequest,
): Promise<readonly string[] | StageFailure> {
  if (list.kind === 'inline') return list.items.map((item) => JSON.stringify(item));
  const output = valueAt(upstream, list.stage)?.output ?? null;
  const read = output === null ? 'is not there' : await readList(artifacts, output, list.path);
  const found =
    typeof read === 'string'
      ? read
      : read.length <= mostItems
        ? null
        : `is a list of ${read.length} items; at most ${mostItems} are allowed`;
  if (found === null) return read as readonly string[];
  const message = `the output of ${list.stage}, which \`for_each\` reads, ${found}`;
  return { code: 'stage/bad-items', message, stderrTail: '' };
}

/** Returns the JSON of each item with the digits that were printed, or a description of the problem. */
async function readList(
  artifacts: ArtifactStore,
  ref: DataRef,
  path: readonly string[] = [],
): Promise<readonly string[] | string> {
  if (ref.sizeBytes > PLAN_LIMITS.itemListBytes)
    return `has ${ref.sizeBytes} bytes, at most ${PLAN_LIMITS.itemListBytes} are allowed`;
  const chunks: Uint8Array[] = [];
  for await (const chunk of artifacts.open(ref)) chunks.push(chunk);
  const text = readUtf8(Buffer.concat(chunks));
  if (text === null) return 'is not UTF-8 text';
  const read = readExactJson(text);
  if ('problem' in read)
    return read.isTooDeep
      ? `has an item of more than ${PLAN_LIMITS.itemLevels} levels`
      : describeNotJson(text, read, true, ref.redacted?.variables);
  let { value } = read;
  for (const name of path) {
    const member: ExactJson | undefined = value instanceof Map ? value.get(name) : undefined;
    if (member === undefined) return `has no member ${quote(name)}`;
    value = member;
  }
  return Array.isArray(value) ? value.map(writeExactJson) : 'is JSON and not a list';
}

/** Returns null if the bytes are not UTF-8, because decoding would change them. */
function readUtf8(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

/** Reads the list that this host wrote itself. */
async function readKeptList(artifacts: ArtifactStore, ref: DataRef): Promise<readonly string[]> {
  const list = await readList(artifacts, ref);
  if (typeof list === 'string') throw new Error(`the list of items ${ref.sha256} ${list}`);
  return list;
}

export interface ItemLists {
  /**
   * Returns null for the run's own stages.
   * @throws CodedError `call/refused` for an item that the list does not contain
   */
  itemOf(runId: string, instance: InstancePath): Promise<StageItem | null>;
  /** Drops the run after its end, because another run may use its id. */
  forget(runId: string): void;
}

export function createItemLists({
  artifacts,
  records,
}: {
  readonly artifacts: ArtifactStore;
  readonly records: Pick<RunRecords, 'get'>;
}): ItemLists {
  /** Parsed lists in the order of their last use. */
  const kept = new Map<string, { readonly list: Promise<readonly string[]>; readonly sizeBytes: number }>();
  let keptBytes = 0;
  const drop = (sha256: string): void => {
    keptBytes -= kept.get(sha256)?.sizeBytes ?? 0;
    kept.delete(sha256);
  };
  /** Records of lists by run and name. A list that has begun never changes. */
  const begun = new Map<string, Map<string, ItemsRecord>>();
  let begunCount = 0;
  const keepBegun = (runId: string, name: string, record: ItemsRecord): void => {
    if (begunCount >= MOST_BEGUN_LISTS) {
      begun.clear();
      begunCount = 0;
    }
    begun.set(runId, (begun.get(runId) ?? new Map<string, ItemsRecord>()).set(name, record));
    begunCount += 1;
  };
  const listIn = async (runId: string, name: ListName): Promise<readonly string[]> => {
    const known = begun.get(runId)?.get(recordName(name));
    const record = known ?? (await recordOf(records, runId, name));
    if (record === null) return [];
    if (known === undefined) keepBegun(runId, recordName(name), record);
    const { sha256, sizeBytes } = record.list;
    const list = kept.get(sha256)?.list ?? readKeptList(artifacts, record.list);
    drop(sha256);
    kept.set(sha256, { list, sizeBytes });
    keptBytes += sizeBytes;
    list.catch(() => drop(sha256));
    for (const oldest of kept.keys()) {
      const isSmall = kept.size <= MOST_SMALL_LISTS && keptBytes <= PLAN_LIMITS.itemListBytes;
      if (kept.size <= MOST_LISTS || isSmall) break;
      drop(oldest);
    }
    return list;
  };
  return {
    forget(runId) {
      begunCount -= begun.get(runId)?.size ?? 0;
      begun.delete(runId);
    },
    async itemOf(runId, instance) {
      const step = instance.at(-1);
      if (step === undefined) return null;
      const { part: stage, item: index } = step;
      const list = await listIn(runId, listAround(step, instance.slice(0, -1)));
      if (index >= list.length)
        throw new CodedError(
          'call/refused',
          `run ${runId}: stage ${stage} has ${list.length} items and no item ${index}`,
        );
      return { index, text: list[index]! };
    },
  };
}

/**
 * Returns the variables with the item, in addition to `/workspace/input.json`. The author's own variables take
 * precedence.
 */
export function itemVariables(item: StageItem | null): Readonly<Record<string, string>> {
  if (item === null) return {};
  const index = { VOIDBOX_ITEM_INDEX: String(item.index) };
  return Buffer.byteLength(item.text) > VARIABLE_BYTES ? index : { ...index, VOIDBOX_ITEM: item.text };
}

/** The end of an item. */
type ItemEnd = { readonly output: DataRef | null } | { readonly failure: StageFailure };

/**
 * Ends the items with the latest attempts in the run's log: the log decides, whatever workflows remember.
 * @param remembered the ends that this worker knows without reading the log
 */
export function endItems(
  deps: ActivityDeps,
  request: EndItemsRequest,
  remembered: EndsOfList | null = null,
): Promise<StageResult> {
  return withHeartbeat(async (life) => {
    const { runId, stage, execKey, each } = request;
    const earlier = await readResult(deps.events, runId, execKey);
    if (earlier !== null) return earlier;
    life.phase('reading results');
    const record = await recordOf(deps.records, runId, request);
    if (record === null)
      throw new CodedError('call/refused', `run ${runId}: the items of stage ${stage} have not begun`);
    const list = await readKeptList(deps.artifacts, record.list);
    const { ends, startedAtMs, vm } = findRememberedEnds(remembered, record.count) ?? (await endsOf(deps, request));
    const failed = list.flatMap((value, item) => {
      const end = ends.get(item);
      return end !== undefined && 'failure' in end ? [{ item, value, failure: end.failure }] : [];
    });
    const usage = { items: list.length, itemsFailed: failed.length };
    const durationMs = Math.max(0, deps.now() - (startedAtMs ?? deps.now()));
    const conclude = async (end: Partial<StageResult>): Promise<StageResult> =>
      writeResult(deps.events, runId, { ...resultOf(request, durationMs, end), usage, vm }, null, deps.now());
    if (request.cancelled)
      return conclude({
        outcome: 'cancelled',
        failure: {
          code: 'stage/cancelled',
          message: `stage ${stage} was cancelled; ${ends.size} of its ${list.length} items had ended`,
          stderrTail: '',
        },
      });
    const missing = list.length - ends.size;
    if (failed.length > each.allowFailures || missing > 0)
      return conclude({ failure: failureOf(request, list.length, failed, missing) });
    life.phase('merging results');
    const parts = list.map((value, item) => {
      const end = ends.get(item)!;
      return 'failure' in end
        ? { item: value, failure: { code: end.failure.code, message: end.failure.message } }
        : { item: value, output: end.output };
    });
    try {
      const output = await mergeItems(deps.artifacts, parts);
      return await conclude({ outcome: 'succeeded', failure: null, output });
    } catch (error) {
      if (!isCodedError(error) || error.code !== 'run/too-large') throw error;
      return conclude({ failure: { code: error.code, message: error.message, stderrTail: '' } });
    }
  });
}

interface Ends {
  readonly ends: ReadonlyMap<number, ItemEnd>;
  readonly startedAtMs: number | null;
  /** The weakest isolation of an item's VM; null if no item had a VM. */
  readonly vm: VmFacts | null;
}

/** Returns null unless all items have succeeded in this worker. */
function findRememberedEnds(remembered: EndsOfList | null, count: number): Ends | null {
  if (remembered === null || remembered.succeeded.size < count) return null;
  const { startedAtMs, succeeded } = remembered;
  let vm: VmFacts | null = null;
  for (const end of succeeded.values()) vm = weaker(vm, end.vm);
  return { ends: succeeded, startedAtMs, vm };
}

async function endsOf(deps: ActivityDeps, request: EndItemsRequest): Promise<Ends> {
  const { runId, execKey: own } = request;
  const ends = new Map<number, ItemEnd & { readonly attempt: number }>();
  let startedAtMs: number | null = null;
  let vm: VmFacts | null = null;
  for await (const { atMs, body } of deps.reader.read(runId, 0, { output: false })) {
    if (body.type === 'stage-started' && body.execKey === own) startedAtMs = atMs;
    const end = endIn(body, request);
    if (end === null) continue;
    const known = ends.get(end.item);
    if (known === undefined || known.attempt <= end.attempt) ends.set(end.item, end);
    if (body.type === 'stage-finished') vm = weaker(vm, body.result.vm);
  }
  return { ends, startedAtMs, vm };
}

function weaker(one: VmFacts | null, other: VmFacts | null): VmFacts | null {
  if (one === null || other === null) return one ?? other;
  const rank = ({ isolation }: VmFacts): number => ISOLATION_LEVELS.indexOf(isolation);
  return rank(other) > rank(one) ? other : one;
}

/**
 * Returns the end of an item. A cancelled item has not ended, so no later attempt may replace it. For a part, the stage
 * that ends the part counts.
 */
function endIn(
  body: RunEventBody,
  { stage, instance: around, attempt }: ListName,
): (ItemEnd & { readonly item: number; readonly attempt: number }) | null {
  if ((body.type !== 'stage-finished' && body.type !== 'stage-failed') || body.stage !== stage) return null;
  const name = parseExecKey(body.execKey);
  const step = name?.instance[around.length];
  if (name === null || step === undefined || step.part !== stage || name.instance.length !== around.length + 1)
    return null;
  if ((step.attempt ?? 1) !== attempt || around.some((each, at) => !isSameStep(each, name.instance[at]!))) return null;
  const at = { item: step.item, attempt: name.attempt };
  if (body.type === 'stage-failed') return { ...at, failure: body.failure };
  const { outcome, output, failure } = body.result;
  if (outcome === 'succeeded') return { ...at, output };
  return outcome === 'failed' && failure !== null ? { ...at, failure } : null;
}

function isSameStep(one: InstanceStep, other: InstanceStep): boolean {
  return one.part === other.part && one.item === other.item && (one.attempt ?? 1) === (other.attempt ?? 1);
}

function listAround({ part, attempt = 1 }: InstanceStep, instance: InstancePath): ListName {
  return { stage: part, instance, attempt };
}

function failureOf(
  { stage, instance }: EndItemsRequest,
  count: number,
  failed: readonly { readonly item: number; readonly value: string; readonly failure: StageFailure }[],
  missing: number,
): StageFailure {
  const [first] = failed;
  // The failure of an item contains the failure of the list in it, so it needs the name.
  const name = instance.length === 0 ? '' : `${formatStageName(stage, instance)}: `;
  const left = missing === 0 ? '' : `; ${missing} did not end`;
  if (first === undefined)
    return {
      code: 'stage/items-failed',
      message: `${name}of the ${count} items of stage ${stage} ${missing} have no result`,
      stderrTail: '',
    };
  const { item, value, failure } = first;
  return {
    code: 'stage/items-failed',
    message: `${name}${failed.length} of ${count} items failed${left}; the first is item ${item}, ${formatItem(value)}: ${failure.message} (${failure.code})`,
    stderrTail: failure.stderrTail,
  };
}

/** @param json the JSON of an item */
function formatItem(json: string): string {
  const text = sanitizeLine(json);
  return text.length <= SHOWN_CHARACTERS ? text : `${text.slice(0, SHOWN_CHARACTERS - 1)}…`;
}

function resultOf(
  { stage, instance, attempt, execKey }: EndItemsRequest,
  durationMs: number,
  end: Partial<StageResult>,
): StageResult {
  return {
    stage,
    instance,
    attempt,
    execKey,
    outcome: 'failed',
    failure: null,
    durationMs,
    output: null,
    outputs: {},
    vm: null,
    usage: {},
    command: null,
    ...end,
  };
}

async function* pieces(texts: readonly string[]): AsyncIterable<Uint8Array> {
  for (const text of texts) yield Buffer.from(text);
}
