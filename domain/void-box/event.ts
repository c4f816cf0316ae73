/** The events of Void-Box's API: their types in both versions, and the shape that clients read. */

/** The type of an event by the version `v1`, with its name in `v2`. */
export const EVENT_TYPES = {
  'run.started': 'RunStarted',
  'env.provisioned': 'EnvironmentProvisioned',
  'run.spec.loaded': 'SpecLoaded',
  'spec.parse_failed': 'SpecParseFailed',
  'box.started': 'BoxStarted',
  'skill.mounted': 'SkillMounted',
  'workflow.planned': 'WorkflowPlanned',
  'stage.queued': 'StageQueued',
  'stage.started': 'StageStarted',
  'stage.completed': 'StageSucceeded',
  'stage.failed': 'StageFailed',
  'stage.skipped': 'StageSkipped',
  'log.chunk': 'LogChunk',
  'log.closed': 'LogClosed',
  'run.finished': 'RunCompleted',
  'run.failed': 'RunFailed',
  'run.cancelled': 'RunCancelled',
  'run.output_ready': 'RunOutputReady',
} as const;

export type EventType = keyof typeof EVENT_TYPES;

export type ApiVersion = 'v1' | 'v2';

export interface VoidBoxEvent {
  readonly ts_ms: number;
  readonly level: 'info' | 'warn' | 'error';
  readonly event_type: string;
  readonly message: string;
  readonly run_id: string;
  readonly box_name: string | null;
  readonly skill_id: string | null;
  readonly skill_type: string | null;
  readonly environment_id: string | null;
  readonly mode: string | null;
  readonly stream: string | null;
  /** Increases in a run, with gaps. */
  readonly seq: number;
  readonly payload: Readonly<Record<string, unknown>> | null;
  readonly stage_name: string | null;
  readonly group_id: string | null;
  /** A UUID of version 7. */
  readonly event_id: string;
  readonly attempt_id: 1;
  /** ISO 8601. */
  readonly timestamp: string;
  readonly event_type_v2: string;
}

/** The parts of an event that its type decides. Absent: null. */
export type EventPart = { readonly type: EventType } & Pick<VoidBoxEvent, 'message'> &
  Partial<
    Pick<
      VoidBoxEvent,
      | 'level'
      | 'box_name'
      | 'skill_id'
      | 'skill_type'
      | 'environment_id'
      | 'mode'
      | 'stream'
      | 'payload'
      | 'stage_name'
      | 'group_id'
    >
  >;

export interface EventPlace {
  readonly runId: string;
  readonly atMs: number;
  /** The `seq` of the run's event that the part is made of; 0: it comes before all of them. */
  readonly seq: number;
  /** The number of the part among the parts of that event. */
  readonly index: number;
}

/** Parts of one event of a run: its admission has one for each stage and each agent skill. */
const MOST_PARTS = 2 ** 18;

export function createEvent(part: EventPart, place: EventPlace, version: ApiVersion): VoidBoxEvent {
  const { type, message, level = 'info', ...rest } = part;
  const { runId, atMs, seq, index } = place;
  return {
    ts_ms: atMs,
    level,
    event_type: version === 'v2' ? EVENT_TYPES[type] : type,
    message,
    run_id: runId,
    box_name: null,
    skill_id: null,
    skill_type: null,
    environment_id: null,
    mode: null,
    stream: null,
    seq: seq * MOST_PARTS + index,
    payload: null,
    stage_name: null,
    group_id: null,
    ...rest,
    event_id: writeEventId(place),
    attempt_id: 1,
    timestamp: new Date(atMs).toISOString(),
    event_type_v2: EVENT_TYPES[type],
  };
}

/**
 * The id of an event follows from its place, so each reader writes the same id. After the time it has 12 bits of the
 * run's id, then the index (18 bits) and the `seq` (44 bits).
 */
export function writeEventId({ runId, atMs, seq, index }: EventPlace): string {
  const time = toHex(Math.max(0, atMs), 12);
  const run = toHex(hashRunId(runId), 3);
  const tail = ((0b10n << 62n) | (BigInt(index) << 44n) | BigInt(seq)).toString(16);
  return `${time.slice(0, 8)}-${time.slice(8)}-7${run}-${tail.slice(0, 4)}-${tail.slice(4)}`;
}

const EVENT_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** @returns null for a text that is no id of an event of the run */
export function readEventId(id: string, runId: string): { readonly seq: number; readonly index: number } | null {
  if (!EVENT_ID.test(id)) return null;
  const [first, second, third, fourth, fifth] = id.split('-') as [string, string, string, string, string];
  const tail = BigInt(`0x${fourth}${fifth}`) & ((1n << 62n) - 1n);
  const place = { seq: Number(tail & ((1n << 44n) - 1n)), index: Number(tail >> 44n) };
  const atMs = Number.parseInt(`${first}${second}`, 16);
  return third.slice(1) === toHex(hashRunId(runId), 3) && writeEventId({ runId, atMs, ...place }) === id ? place : null;
}

function toHex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, '0').slice(-digits);
}

/** 12 bits: an id of another run is mostly found to be one. */
function hashRunId(runId: string): number {
  let hash = 0x81_1c_9d_c5;
  for (let at = 0; at < runId.length; at += 1) hash = Math.imul(hash ^ runId.charCodeAt(at), 0x01_00_01_93) >>> 0;
  return hash & 0xf_ff;
}
