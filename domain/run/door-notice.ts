/**
 * Notices of a VM's network door: lines of JSON that its keeper writes (docs/reference/keeper.md, "The door"). A guest chooses
 * their number and the names in them. So each line is bounded, and only the first ones become events of their own.
 */
import { isDateMs } from '../units/time.ts';

/**
 * A notice about a connection that the door refused or closed, or about the notices themselves. A guest chooses the
 * names in it.
 */
export type DoorNotice =
  | ({
      readonly kind: 'refused';
      /**
       * `rules`: no rule of `allow` matches. `closed`: no rule can open it, or `deny` matches. `limit`: a limit of the
       * door. `failed`: it was allowed, but the connection failed.
       */
      readonly cause: string;
      readonly reason: string;
    } & DoorTarget)
  | ({
      readonly kind: 'closed';
      /** `clean`, `reset`, `idle` or `limit`. */
      readonly end: string;
      /** Bytes from the guest. */
      readonly sentBytes: number;
      readonly receivedBytes: number;
      readonly durationMs: number;
    } & DoorTarget)
  /** The keeper drops further notices of this kind. */
  | { readonly kind: 'dropped'; readonly of: string }
  /** How many notices before this one are lost, because the host's disk was full. */
  | { readonly kind: 'unwritten'; readonly count: number }
  /**
   * The counts of all notices without an event of their own, since the VM began. A later one replaces all before it.
   */
  | ({ readonly kind: 'more' } & DoorCounts);

/** The target that the guest asked for. */
export interface DoorTarget {
  /** Absent for a service. */
  readonly host?: string;
  readonly port?: number;
  readonly service?: string;
}

export interface DoorCounts {
  readonly refused: number;
  readonly closed: number;
  readonly sentBytes: number;
  readonly receivedBytes: number;
}

export const DOOR_NOTICE_LIMITS = {
  /** Notices of a VM that become events of their own; further ones are counted. */
  refused: 200,
  closed: 1_000,
  /** The number of counted notices after which an event reports the counts. */
  counted: 256,
  /** Limits of a name and of a reason. */
  nameCharacters: 255,
  reasonCharacters: 1_024,
} as const;

/** The state of reading a VM's notices. The same bytes make the same state, however they are cut. */
export interface NoticesRead {
  /** Bytes that were read, up to the end of a line. */
  readonly offset: number;
  readonly refused: number;
  readonly closed: number;
  readonly more: DoorCounts;
  /** The notices in `more` that no event has reported. */
  readonly untold: number;
}

export const NOTHING_READ: NoticesRead = {
  offset: 0,
  refused: 0,
  closed: 0,
  more: { refused: 0, closed: 0, sentBytes: 0, receivedBytes: 0 },
  untold: 0,
};

export interface ToldNotice {
  /** The offset of its line; for `more`, the end of the last counted line. */
  readonly offset: number;
  /** Milliseconds since the epoch by the host's clock; null: the line has no time. */
  readonly atMs: number | null;
  readonly notice: DoorNotice;
}

/** How many notices become events of their own; further ones are counted. */
export type NoticeLimits = Pick<Record<keyof typeof DOOR_NOTICE_LIMITS, number>, 'refused' | 'closed'>;

/**
 * Reads whole lines from `read.offset`. Bytes after the last line end stay for the next call.
 * @param decode  decodes UTF-8
 */
export function readNotices(
  read: NoticesRead,
  bytes: Uint8Array,
  decode: (bytes: Uint8Array) => string,
  limits: NoticeLimits = DOOR_NOTICE_LIMITS,
): { readonly read: NoticesRead; readonly told: readonly ToldNotice[] } {
  const told: ToldNotice[] = [];
  let state = read;
  let start = 0;
  for (let end = bytes.indexOf(LINE_END); end !== -1; end = bytes.indexOf(LINE_END, start)) {
    const line = parseLine(decode(bytes.subarray(start, end)));
    const offset = state.offset;
    state = { ...state, offset: read.offset + end + 1 };
    start = end + 1;
    if (line === null) continue;
    const next = count(state, line.notice, limits);
    if (next.more === state.more) told.push({ offset, ...line });
    state = next;
    if (state.untold < DOOR_NOTICE_LIMITS.counted) continue;
    told.push(createCountsNotice(state));
    state = { ...state, untold: 0 };
  }
  return { read: state, told };
}

/** Reports the counts that no event has reported yet. */
export function flushCounts(read: NoticesRead): { readonly read: NoticesRead; readonly told: readonly ToldNotice[] } {
  return read.untold === 0 ? { read, told: [] } : { read: { ...read, untold: 0 }, told: [createCountsNotice(read)] };
}

const LINE_END = 0x0a;

function createCountsNotice({ offset, more }: NoticesRead): ToldNotice {
  return { offset, atMs: null, notice: { kind: 'more', ...more } };
}

function count(read: NoticesRead, notice: DoorNotice, limits: NoticeLimits): NoticesRead {
  if (notice.kind !== 'refused' && notice.kind !== 'closed') return read;
  const { kind } = notice;
  if (read[kind] < limits[kind]) return { ...read, [kind]: read[kind] + 1 };
  const { more } = read;
  const bytes =
    notice.kind === 'closed'
      ? { sentBytes: more.sentBytes + notice.sentBytes, receivedBytes: more.receivedBytes + notice.receivedBytes }
      : {};
  return { ...read, more: { ...more, [kind]: more[kind] + 1, ...bytes }, untold: read.untold + 1 };
}

/** Returns null for a line that no keeper of this build writes. */
function parseLine(text: string): Omit<ToldNotice, 'offset'> | null {
  let line: unknown;
  try {
    line = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof line !== 'object' || line === null) return null;
  const value = (name: string): unknown => (line as Readonly<Record<string, unknown>>)[name];
  const notice = noticeOf(value);
  const atMs = value('atMs');
  return notice === null ? null : { notice, atMs: isCount(atMs) && isDateMs(atMs) ? atMs : null };
}

function noticeOf(value: (name: string) => unknown): DoorNotice | null {
  const text = (name: string, most: number): string => {
    const found = value(name);
    return typeof found === 'string' ? found.slice(0, most) : '';
  };
  const number = (name: string): number => {
    const found = value(name);
    return isCount(found) ? found : 0;
  };
  const name = (key: string): string => text(key, DOOR_NOTICE_LIMITS.nameCharacters);
  const target: DoorTarget =
    typeof value('service') === 'string' ? { service: name('service') } : { host: name('host'), port: number('port') };
  switch (value('kind')) {
    case 'refused':
      return {
        kind: 'refused',
        ...target,
        cause: name('cause'),
        reason: text('reason', DOOR_NOTICE_LIMITS.reasonCharacters),
      };
    case 'closed':
      return {
        kind: 'closed',
        ...target,
        end: name('end'),
        sentBytes: number('sentBytes'),
        receivedBytes: number('receivedBytes'),
        durationMs: number('ms'),
      };
    case 'dropped':
      return { kind: 'dropped', of: name('of') };
    case 'unwritten':
      return { kind: 'unwritten', count: number('count') };
    default:
      return null;
  }
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** `example.com:443`, `[::1]:80` or `service db`. */
export function formatTarget({ host = '', port = 0, service }: DoorTarget): string {
  if (service !== undefined) return `service ${service}`;
  return host.includes(':') && !host.startsWith('[') ? `[${host}]:${port}` : `${host}:${port}`;
}
