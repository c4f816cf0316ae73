/**
 * The place of a stage in a run whose parts run once for each item: a path from the outermost part to the innermost,
 * each with the item's number. The run's own stages have the empty path.
 */
import { quote } from '../units/quote.ts';

export interface InstanceStep {
  /** The stage that represents the part in the plan around it. */
  readonly part: string;
  /** From 0, in the order of the items. */
  readonly item: number;
  /** The attempt of that stage that made the list: in a loop, each visit makes a list. Absent: the first. */
  readonly attempt?: number | undefined;
}

export type InstancePath = readonly InstanceStep[];

export const INSTANCE_LIMITS = {
  /** Parts within parts. */
  depth: 4,
  /** Items of one part. */
  items: 1_000_000,
  /** Attempts of a stage with items: the most visits that a plan allows for all stages in loops. */
  attempts: 5_000,
  /** Bytes of a path's text. So an exec key, and a name that is made of it, is short enough for the name of a file. */
  textBytes: 120,
} as const;

/** The form of ids of stages and scopes in plans. It contains neither of the separators `~` and `/`. */
export const PLAN_ID = '[A-Za-z0-9_][A-Za-z0-9._-]{0,63}';

/** The text of the empty path in events and keys. No other path has this text, because each contains a `~`. */
const EMPTY = '0';
const WHOLE_PLAN_ID = new RegExp(`^${PLAN_ID}$`);
/** The first attempt is not written, so that no two texts mean the same item. */
const ITEM = /^(0|[1-9]\d{0,5})(?:\.([2-9]|[1-9]\d{1,3}))?$/;

export function isPlanId(text: string): boolean {
  return WHOLE_PLAN_ID.test(text);
}

/**
 * `<part>~<item>`, or `<part>~<item>.<attempt>`, joined by `~`; `0` for the empty path.
 * @throws RangeError for a path beyond the limits
 */
export function formatInstance(path: InstancePath): string {
  const problem = findInstanceProblem(path);
  if (problem !== null) throw new RangeError(problem);
  return textOf(path);
}

/** Returns null for a text that is not a path. */
export function parseInstance(text: string): InstancePath | null {
  if (text === EMPTY) return [];
  if (text.length > INSTANCE_LIMITS.textBytes) return null;
  const words = text.split('~');
  if (words.length % 2 !== 0) return null;
  const path: InstanceStep[] = [];
  for (let at = 0; at < words.length; at += 2) {
    const match = ITEM.exec(words[at + 1]!);
    if (match === null) return null;
    path.push(stepOf(words[at]!, Number(match[1]), match[2] === undefined ? 1 : Number(match[2])));
  }
  return findInstanceProblem(path) === null ? path : null;
}

/** Reads a path from a value that any client may have sent. Returns null if the value is not a path. */
export function readInstance(value: unknown): InstancePath | null {
  if (!Array.isArray(value) || value.length > INSTANCE_LIMITS.depth) return null;
  const path: InstanceStep[] = [];
  for (const step of value as readonly unknown[]) {
    const fields = (typeof step === 'object' && step !== null ? step : {}) as Partial<Record<string, unknown>>;
    const { part, item, attempt = 1 } = fields;
    if (typeof part !== 'string' || typeof item !== 'number' || typeof attempt !== 'number') return null;
    path.push(stepOf(part, item, attempt));
  }
  return findInstanceProblem(path) === null ? path : null;
}

/** @param attempt  the attempt of the stage with the list */
export function stepOf(part: string, item: number, attempt: number): InstanceStep {
  return attempt === 1 ? { part, item } : { part, item, attempt };
}

/** Explains why a path is invalid, as a sentence; null if it is valid. */
export function findInstanceProblem(path: InstancePath): string | null {
  if (path.length > INSTANCE_LIMITS.depth)
    return `parts are nested ${path.length} deep, at most ${INSTANCE_LIMITS.depth} are allowed`;
  for (const { part, item, attempt = 1 } of path) {
    if (!isPlanId(part)) return `${quote(part)} is not the id of a part`;
    if (!Number.isSafeInteger(item) || item < 0 || item >= INSTANCE_LIMITS.items)
      return `part ${part} has no item ${item}: items are numbered from 0, at most ${INSTANCE_LIMITS.items} of them`;
    if (!Number.isSafeInteger(attempt) || attempt < 1 || attempt > INSTANCE_LIMITS.attempts)
      return `part ${part} has no attempt ${attempt}: attempts are numbered from 1 to ${INSTANCE_LIMITS.attempts}`;
  }
  const { length } = textOf(path);
  return length <= INSTANCE_LIMITS.textBytes
    ? null
    : `the names of nested parts and their items have ${length} bytes in total, at most ${INSTANCE_LIMITS.textBytes} are allowed: give ${path.map(({ part }) => part).join(', ')} shorter names`;
}

function textOf(path: InstancePath): string {
  return path.length === 0 ? EMPTY : path.map(textOfStep).join('~');
}

function textOfStep({ part, item, attempt = 1 }: InstanceStep): string {
  return `${part}~${item}${attempt === 1 ? '' : `.${attempt}`}`;
}

/**
 * Formats a stage for people: `resize` of the run itself, `resize[3]` of an item, `deploy[0].build` of a stage within
 * an item, and `resize#2[3]` of an item of the second list in a loop. In plans, the name of such a stage begins with
 * the name of its part.
 */
export function formatStageName(stage: string, path: InstancePath): string {
  const parts = path.map(
    ({ part, item, attempt = 1 }, at) =>
      `${stripPart(part, path[at - 1]?.part)}${attempt === 1 ? '' : `#${attempt}`}[${item}]`,
  );
  const last = path.at(-1)?.part;
  return last === stage ? parts.join('.') : [...parts, stripPart(stage, last)].join('.');
}

function stripPart(name: string, part: string | undefined): string {
  return part !== undefined && name.startsWith(`${part}.`) ? name.slice(part.length + 1) : name;
}
