/** The filters of a run's log as options: `--since`, `--tail`, `--grep`. */
import { InvalidArgumentError } from 'commander';
import { MAX_TAIL_LINES } from '../../app/lines/log-lines.ts';
import { parseSince, type Since, SINCE_RULE } from '../../domain/run/since.ts';

/** Parses a `--since`. */
export function readSince(text: string): Since {
  const since = parseSince(text);
  if (since !== null) return since;
  throw new InvalidArgumentError(`It must be ${SINCE_RULE}.`);
}

/** Parses a `--since` of a list whose entries have no `seq`. */
export function parseSinceTime(text: string): Exclude<Since, { readonly seq: number }> {
  const since = parseSince(text);
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
