/** The filters of a run's log: `--since`, `--tail`, `--grep`. */
import { InvalidArgumentError } from 'commander';
import { parseDurationMs } from '../../domain/units/duration.ts';

/** Lines that `--tail` holds in memory, each of at most 16,384 characters. */
export const MAX_TAIL_LINES = 10_000;

/** The start of the output: after an event's number, or from a moment on. */
export type Since = { readonly seq: number } | { readonly agoMs: number } | { readonly atMs: number };

/** `412`, `10m`, `2026-11-23T08:00:00Z`; a time without a zone is in UTC. */
export function parseSince(text: string): Since {
  if (/^\d{1,15}$/.test(text)) return { seq: Number(text) };
  const agoMs = parseDurationMs(text);
  if (agoMs !== null) return { agoMs };
  const iso = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)?)?$/.exec(text);
  const atMs = iso === null ? Number.NaN : Date.parse(text.includes('T') && iso[1] === undefined ? `${text}Z` : text);
  if (!Number.isNaN(atMs)) return { atMs };
  throw new InvalidArgumentError(
    'It must be an age (90s, 10m, 2h, 1d), a time (2026-11-23T08:00:00Z), or the `seq` of an event.',
  );
}

/** Parses a `--since` of a list whose entries have no `seq`. */
export function parseSinceTime(text: string): Exclude<Since, { readonly seq: number }> {
  const since = /^\d{1,15}$/.test(text) ? null : parseSince(text);
  if (since !== null && !('seq' in since)) return since;
  throw new InvalidArgumentError('It must be an age (90s, 10m, 2h, 1d) or a time (2026-11-23T08:00:00Z).');
}

export function parseTail(text: string): number {
  const lines = /^\d{1,6}$/.test(text) ? Number(text) : Number.NaN;
  if (lines <= MAX_TAIL_LINES) return lines;
  throw new InvalidArgumentError(`It must be a number of lines, at most ${MAX_TAIL_LINES}.`);
}

export function parseGrep(text: string): string {
  if (text !== '') return text;
  throw new InvalidArgumentError('It must be the text that a line contains.');
}

/** Holds back all but the last requested lines, until all present events are read. */
export class Tail {
  readonly #most: number;
  #held: string[] | null = [];

  constructor(most: number) {
    this.#most = most;
  }

  /** Returns the lines to print now. */
  push(lines: readonly string[]): readonly string[] {
    if (this.#held === null) return lines;
    this.#held.push(...lines);
    // Trim rarely, because each trim moves all lines.
    if (this.#held.length > 2 * this.#most) this.#held = this.#last(this.#held);
    return [];
  }

  /** Returns the held lines; from then on `push` returns every line at once. */
  release(): readonly string[] {
    const held = this.#last(this.#held ?? []);
    this.#held = null;
    return held;
  }

  #last(lines: readonly string[]): string[] {
    return lines.slice(Math.max(0, lines.length - this.#most));
  }
}
