/**
 * The history that a client carries. Folding all of it in each call would cost more with every step. So some calls
 * write the result of folding so far into the record that the client appends anyway: a checkpoint. Later calls fold
 * only what comes after the last checkpoint. Nothing is stored here. A client that drops checkpoints, or rewrites its
 * history, only loses speed, because a checkpoint counts only for the exact text it was made from.
 */
import { createHash } from 'node:crypto';
import { isPlain } from '../../domain/step-machine/deep-merge.ts';
import type { StepRecord } from '../../domain/step-machine/records.ts';
import { type HistoryEntry, readEntry } from '../../domain/step-machine/replay.ts';
import { countJsonBytes } from '../../domain/step-machine/size-limits.ts';
import type { SessionState } from '../../domain/step-machine/state.ts';
import { parseJson, type Source } from './inputs.ts';

/** Entries behind the last checkpoint before another one is made. */
const ENTRIES_BETWEEN = 64;
/** A larger one would make the history grow faster than its steps do. */
const LARGEST_BYTES = 16 * 1024;

/** The result of folding the first `entries`. */
export interface Checkpoint {
  readonly format: 1;
  readonly entries: number;
  /** The length of the history's text, without its closing characters. */
  readonly chars: number;
  /** The digest of that text and of everything else that folding it depends on. */
  readonly digest: string;
  readonly stores: Readonly<Record<string, unknown>>;
  readonly visits: Readonly<Record<string, number>>;
  readonly last: Readonly<Record<string, unknown>>;
}

export interface History {
  /** What is to be folded, oldest first. */
  readonly entries: readonly unknown[];
  /** The checkpoint before that; null: there is no checkpoint. */
  readonly base: Checkpoint | null;
  /** The records that `base` stands for. */
  older(): readonly StepRecord[];
  /** Null when there is not enough behind the last one, or it would not give what folding gives. */
  checkpoint(state: SessionState): Checkpoint | null;
}

export const NO_HISTORY: History = { entries: [], base: null, older: () => [], checkpoint: () => null };

/**
 * @param identity  what folding depends on besides the text: the skill, its code, its params. Null: nothing is written, and no
 * checkpoint is believed
 * @throws {Error} when it is no JSON
 */
export function readHistory({ text, where }: Source, identity: string | null): History {
  const body = text.trimEnd();
  const isArray = body.trimStart().startsWith('[');
  const covered = isArray && body.endsWith(']') ? body.slice(0, -1).trimEnd() : body;
  const digest = (chars: number): string =>
    createHash('sha256').update(`${identity}\n`).update(covered.slice(0, chars)).digest('hex');
  const holds = ({ chars, digest: expected }: Checkpoint): boolean =>
    identity !== null && chars <= covered.length && digest(chars) === expected;
  const parsed = isArray ? arrayBehind(body, where, holds) : linesBehind(body, where, holds);
  const before = parsed.base?.entries ?? 0;
  let older: readonly StepRecord[] | undefined;
  return {
    ...parsed,
    older: () => (older ??= recordsOf(parsed.before())),
    checkpoint(state) {
      if (identity === null || parsed.entries.length < ENTRIES_BETWEEN || !isSaidBy(parsed.entries, state)) return null;
      const { stores, visits, last } = state.frames[0]!;
      const made: Checkpoint = {
        format: 1,
        entries: before + parsed.entries.length,
        chars: covered.length,
        digest: digest(covered.length),
        stores,
        visits,
        last,
      };
      return survivesJson(stores) && survivesJson(last) && countJsonBytes(made) <= LARGEST_BYTES ? made : null;
    },
  };
}

interface ParsedHistory {
  readonly entries: readonly unknown[];
  readonly base: Checkpoint | null;
  before(): readonly unknown[];
}

function arrayBehind(text: string, where: string, holds: (checkpoint: Checkpoint) => boolean): ParsedHistory {
  const all = parseJson(text, where);
  if (!Array.isArray(all)) return { entries: [], base: null, before: () => [] };
  const base = newest(
    all.length,
    (at) => all[at] as unknown,
    (checkpoint, at) => checkpoint.entries <= at && holds(checkpoint),
  );
  const from = base?.entries ?? 0;
  return { entries: all.slice(from), base, before: () => all.slice(0, from) };
}

/** Lines before the checkpoint are not looked at. */
function linesBehind(text: string, where: string, holds: (checkpoint: Checkpoint) => boolean): ParsedHistory {
  const ends: number[] = [];
  for (
    let at = text.lastIndexOf(KEY);
    at >= 0 && ends.length < CANDIDATES;
    at = at === 0 ? -1 : text.lastIndexOf(KEY, at - 1)
  )
    ends.unshift(at);
  const base = newest(
    ends.length,
    (index) => {
      const begin = text.lastIndexOf('\n', ends[index]) + 1;
      const end = text.indexOf('\n', ends[index]);
      return entryOrNull(text.slice(begin, end < 0 ? undefined : end));
    },
    // The text that it was made of ends where a line ends.
    (checkpoint) => LINE_END.test(text.slice(checkpoint.chars, checkpoint.chars + 2)) && holds(checkpoint),
  );
  const chars = base?.chars ?? 0;
  return {
    entries: linesOf(text, chars, text.length, where),
    base,
    before: () => linesOf(text, 0, chars, where),
  };
}

const LINE_END = /^\r?\n/;
const KEY = '"checkpoint"';
/** An agent's answer may also contain this text, so several matches are tried. */
const CANDIDATES = 16;

function newest(
  count: number,
  entryAt: (index: number) => unknown,
  holds: (checkpoint: Checkpoint, index: number) => boolean,
): Checkpoint | null {
  for (let at = count - 1, left = CANDIDATES; at >= 0 && left > 0; at--) {
    const checkpoint = readCheckpoint(entryAt(at));
    if (checkpoint === null) continue;
    if (holds(checkpoint, at)) return checkpoint;
    left--;
  }
  return null;
}

function readCheckpoint(entry: unknown): Checkpoint | null {
  if (!isPlain(entry) || !isPlain(entry['checkpoint'])) return null;
  const { format, entries, chars, digest, stores, visits, last } = entry['checkpoint'];
  const counts =
    isPlain(visits) && Object.values(visits).every((count) => Number.isSafeInteger(count) && (count as number) > 0);
  if (
    format !== 1 ||
    !isCount(entries) ||
    !isCount(chars) ||
    typeof digest !== 'string' ||
    !counts ||
    !isPlain(stores) ||
    !isPlain(last)
  )
    return null;
  return { format, entries, chars, digest, stores, visits: visits as Record<string, number>, last };
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) > 0;
}

function linesOf(text: string, from: number, to: number, where: string): unknown[] {
  const lineOf = (at: number): number => text.slice(0, from).split('\n').length + at;
  const lines = text.slice(from, to).split('\n');
  return lines.flatMap((line, at) =>
    line.trim() === '' ? [] : [parseJson(line, () => `${where}, line ${lineOf(at)}`)],
  );
}

function entryOrNull(line: string): unknown {
  try {
    return JSON.parse(line) as unknown;
  } catch {
    return null;
  }
}

/** Whether every entry is a record of the skill's own steps, and says of it what folding gave. */
function isSaidBy(entries: readonly unknown[], { frames, nextFrame, cursors, records }: SessionState): boolean {
  if (frames.length !== 1 || nextFrame !== 1 || cursors.length > 0 || records.length !== entries.length) return false;
  return entries.every((entry, at) => {
    const { step, response, actionResult, result } = records.items[at]!;
    const said = readEntry(entry) as (HistoryEntry & { readonly result?: unknown }) | null;
    if (said === null || said.step !== step || !survivesJson(response) || !survivesJson(result)) return false;
    return (
      isSame(said.response, response) && isSame(said.actionResult, actionResult) && isSame(resultOf(entry), result)
    );
  });
}

function resultOf(entry: unknown): unknown {
  return (entry as { readonly result?: unknown }).result;
}

function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

function recordsOf(entries: readonly unknown[]): readonly StepRecord[] {
  return entries.flatMap((entry, at) => {
    const said = readEntry(entry);
    return said === null ? [] : [Object.freeze({ ...said, result: resultOf(entry), turn: at + 1, frame: 0 })];
  });
}

/** Whether it comes back from JSON as it is: no dates, maps, holes or undefined. */
function survivesJson(value: unknown, depth = 0): boolean {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return true;
  if (typeof value === 'number') return Number.isFinite(value) && !Object.is(value, -0);
  if (depth > 64) return false;
  if (Array.isArray(value)) return Array.from(value).every((item) => survivesJson(item, depth + 1));
  if (!isPlain(value) || 'toJSON' in value || Object.getOwnPropertySymbols(value).length > 0) return false;
  return Object.values(value).every((inner) => survivesJson(inner, depth + 1));
}
