/** Reads values from a tree with positions. A value of the wrong shape becomes a diagnostic, and is then absent. */
import { PLAN_LIMITS } from '../../plan/plan.ts';
import { parseDurationMs, writeDurationMs } from '../../units/duration.ts';
import { isRounded, losesValue } from '../../units/rounded.ts';
import { type DurationRange, NAME, type NumberRange } from './values.ts';
import type { Json, JsonSpec, JsonType } from './json.ts';
import type { SpecCode } from '../../errors/spec-codes.ts';
import type { Gap, Problems } from '../text/diagnostics.ts';
import {
  describe,
  quoteYaml,
  type Located,
  type MapEntry,
  type MapNode,
  type Position,
  type TreeNode,
} from '../text/tree.ts';
import { quote } from '../../units/quote.ts';

/** A key of other versions or systems; its message replaces "unknown key". */
export interface UnsupportedKey {
  readonly severity: 'error' | 'warning';
  /** Absent: `spec/unsupported`. */
  readonly code?: SpecCode;
  readonly message: string;
  readonly remedy: string;
}

/** The key that a word means: its form, a hint about its value, and the conclusions that its absence leaves open. */
export interface MeantKey {
  readonly key: string;
  readonly form: string;
  readonly unit: string;
  readonly feeds?: Gap | undefined;
}

/** Messages for keys that a mapping does not have, each by its `plainKey`. */
export interface OtherKeys {
  readonly unsupported: ReadonlyMap<string, UnsupportedKey>;
  /** Keys of other mappings: the name of their mapping, and the key that contains it, if this mapping has that key. */
  readonly misplaced: ReadonlyMap<string, MeantKey & { readonly owner: string; readonly within: string | null }>;
  /** Keys of the mapping, also by their aliases. */
  readonly meant: ReadonlyMap<string, MeantKey>;
}

/** Keys without a meaning, for anchors and for other programs. */
const FREE_KEY = /^x-/;

/** Reads the keys of one mapping. `finish` reports unknown keys and missing required keys. */
export class MapReader {
  readonly at: Position;
  readonly problems: Problems;
  /** The mapping in the words of a message: `step "a"`, `sandbox`. */
  what: string;
  readonly #entries: ReadonlyMap<string, MapEntry>;
  readonly #isPartial: boolean;
  readonly #asked = new Set<string>();
  /** Required keys that are missing, and their forms. */
  readonly #missing = new Map<string, { readonly form: string; readonly others: readonly string[] }>();

  constructor(node: MapNode, what: string, problems: Problems) {
    this.at = node.at;
    this.#entries = node.entries;
    this.#isPartial = node.isPartial === true;
    this.what = what;
    this.problems = problems;
  }

  /** Returns the value of a key; null if it is absent. A key without a value counts as absent. */
  optional(key: string): TreeNode | null {
    this.#asked.add(key);
    const entry = this.#entries.get(key);
    return entry === undefined || (entry.value.kind === 'scalar' && entry.value.value === null) ? null : entry.value;
  }

  /**
   * @param form  the form of the key, for an author who does not know it yet
   * @param others  keys that the author may write instead
   */
  required(key: string, form = key, others: readonly string[] = []): TreeNode | null {
    const node = this.optional(key);
    if (node === null && !this.#isPartial) this.#missing.set(key, { form, others });
    return node;
  }

  has(key: string): boolean {
    return this.optional(key) !== null;
  }

  keyAt(key: string): Position {
    return this.#entries.get(key)?.keyAt ?? this.at;
  }

  /** Reports the other keys; call it once all keys were read. */
  finish(others: OtherKeys): void {
    for (const [word, { keyAt }] of this.#entries)
      if (!this.#asked.has(word) && !FREE_KEY.test(word)) this.#reportOther(word, keyAt, others);
    this.reportMissing();
  }

  /** Reports missing keys only, for a mapping whose other keys cannot be judged. */
  reportMissing(): void {
    for (const [key, { form, others }] of this.#missing) {
      const more = others.length === 0 ? '' : `, or ${others.map((each) => `\`${each}\``).join(', ')}`;
      const message = `${this.what} has no \`${key}\``;
      this.problems.error('spec/missing-key', this.keyAt(key), message, `add \`${form}\`${more}`);
    }
    this.#missing.clear();
  }

  #reportOther(word: string, at: Position, others: OtherKeys): void {
    const { problems } = this;
    const plain = plainKey(word);
    const known = others.meant.get(plain);
    const meant = known !== undefined && this.#asked.has(known.key) ? known : this.#nearMissing(word, others);
    // The table rejects a key of the other kind by its usual name, whatever alias the author wrote.
    const unsupported = others.unsupported.get(known === undefined ? plain : plainKey(known.key));
    const misplaced = others.misplaced.get(plain);
    if (meant !== null) this.#reportWrong(word, at, meant);
    else if (unsupported !== undefined) {
      const { severity, code = 'spec/unsupported', message, remedy } = unsupported;
      problems[severity](code, at, message, remedy);
    } else if (misplaced !== undefined) {
      problems.error(
        'spec/wrong-key',
        at,
        `${this.what} has \`${word}\`, which belongs to ${misplaced.owner}`,
        word === misplaced.key ? 'move it there' : `write \`${misplaced.form}\` there${misplaced.unit}`,
      );
      if (misplaced.within !== null) this.#missing.delete(misplaced.within);
    } else {
      const slip = this.#keyOfSlip(word, others);
      if (slip !== null) return this.#reportWrong(word, at, slip);
      problems.warning(
        'spec/unknown-key',
        at,
        `${this.what} has the unknown key ${quote(word)}${problems.suggestKey(word, this.#asked)}`,
        'fix its spelling or remove it: it has no effect',
      );
    }
  }

  /** Reports a mistaken key as an error: without it, the run would differ from what its author expects. */
  #reportWrong(word: string, at: Position, meant: MeantKey): void {
    if (meant.feeds !== undefined) this.problems.gap(meant.feeds);
    this.problems.error(
      'spec/wrong-key',
      at,
      `\`${word}\` is not a key of ${this.what}; did you mean \`${meant.key}\`?`,
      `write \`${this.#missing.get(meant.key)?.form ?? meant.form}\`${meant.unit}`,
    );
    this.#missing.delete(meant.key);
  }

  /** Returns the key of this mapping that a misspelt key means, unless the mapping already has that key. */
  #keyOfSlip(word: string, { meant }: OtherKeys): MeantKey | null {
    const absent = [...this.#asked].filter((key) => !this.#entries.has(key));
    const key = this.problems.withoutSlip(word, absent);
    return key === null ? null : (meant.get(plainKey(key)) ?? null);
  }

  /** Returns the required key whose name is misspelt. */
  #nearMissing(word: string, { meant }: OtherKeys): MeantKey | null {
    const key = this.problems.nearest(word, this.#missing.keys());
    return key === null ? null : (meant.get(plainKey(key)) ?? { key, form: key, unit: '' });
  }
}

/** Returns the spelling-independent form: `dependsOn` and `depends-on` mean `depends_on`. */
export function plainKey(word: string): string {
  return word.length > 64 ? word : word.toLowerCase().replace(/[-_ ]/g, '');
}

/** @param form  returns the mapping that the author should write instead of a text */
export function readMap(
  node: TreeNode | null,
  what: string,
  problems: Problems,
  form?: (text: string) => string,
): MapReader | null {
  if (node === null) return null;
  if (node.kind === 'map') return new MapReader(node, what, problems);
  const isText =
    node.kind === 'scalar' && typeof node.value === 'string' && !/\p{Cc}/u.test(node.text) && node.text.length <= 80;
  wrongType(
    node,
    what,
    'a mapping',
    isText && form !== undefined ? `write it as \`${form(node.text)}\`` : 'write it as `key: value` lines',
    problems,
  );
  return null;
}

/** Returns the items of a list; empty if it is absent or not a list. */
export function readList(node: TreeNode | null, what: string, problems: Problems): readonly TreeNode[] {
  if (node === null) return [];
  if (node.kind === 'list') return node.items;
  wrongType(node, what, 'a list', listRemedy(node), problems);
  return [];
}

/** A word instead of a list is most often its only item. */
function listRemedy(node: TreeNode): string {
  return node.kind === 'scalar' && /^[\w./-]{1,80}$/.test(node.text)
    ? `write it as \`[${node.text}]\``
    : 'write it as `[a, b]` or as lines that begin with `- `';
}

/** Returns the entries of a mapping with free keys, such as `env` and `params`. */
export function readEntries(
  node: TreeNode | null,
  what: string,
  problems: Problems,
): readonly (readonly [string, MapEntry])[] {
  if (node === null) return [];
  if (node.kind === 'map') return [...node.entries];
  wrongType(node, what, 'a mapping', 'write it as `NAME: value` lines', problems);
  return [];
}

/** Reads a text. If `lenient`, it also accepts numbers and booleans as they are written. */
export function readText(
  node: TreeNode | null,
  what: string,
  problems: Problems,
  lenient = false,
): Located<string> | null {
  if (node === null) return null;
  if (node.kind !== 'scalar' || node.value === null || (!lenient && typeof node.value !== 'string')) {
    wrongType(node, what, 'a string', textRemedy(node), problems);
    return null;
  }
  if (node.text.includes('\0')) {
    problems.error(
      'spec/bad-value',
      node.at,
      `${what} contains a zero byte`,
      'remove the zero byte: arguments and variables cannot contain it',
    );
    return null;
  }
  const { text: value, at, textAt } = node;
  return textAt === undefined ? { value, at } : { value, at, textAt };
}

/** The author seldom means a mapping: YAML reads `echo a: b` as one, and `[ -f x ]` as a list. */
function textRemedy(node: TreeNode): string {
  const written = node.kind === 'scalar' ? node.text : (node.source ?? '');
  return written === '' ? 'write a string' : `put it in quotes: ${quoteYaml(written)}`;
}

/** Reads a text that must not contain a placeholder. */
export function readPlainText(node: TreeNode | null, what: string, problems: Problems): Located<string> | null {
  const text = readText(node, what, problems);
  if (text === null || !text.value.includes('${{')) return text;
  problems.error(
    'spec/bad-placeholder',
    text.at,
    `${what} has a placeholder: ${quote(text.value)}`,
    'write the value out: placeholders are allowed only in programs, arguments, variables, messages, prompts and params',
  );
  return null;
}

export function readNumber(node: TreeNode | null, what: string, range: NumberRange, problems: Problems): number | null {
  if (node === null) return null;
  const wanted = `${range.integer ? 'a whole number' : 'a number'} from ${range.min} to ${range.max}${range.unit === '' ? '' : ` (${range.unit})`}`;
  if (node.kind !== 'scalar' || typeof node.value !== 'number' || Number.isNaN(node.value)) {
    wrongType(node, what, wanted, `write ${wanted}, without quotes or unit`, problems);
    return null;
  }
  if (node.value < range.min || node.value > range.max || (range.integer && !Number.isInteger(node.value))) {
    problems.error('spec/bad-value', node.at, `${what} is ${node.text}`, `write ${wanted}`);
    return null;
  }
  return node.value;
}

/** Returns milliseconds. */
export function readDuration(
  node: TreeNode | null,
  what: string,
  { minMs, maxMs }: DurationRange,
  problems: Problems,
): number | null {
  if (node === null) return null;
  const remedy = 'write a number with its unit (`ms`, `s`, `m`, `h`, `d`), such as `90s`, `1h30m` or `2d`';
  const ms = node.kind === 'scalar' && typeof node.value === 'string' ? parseDurationMs(node.value) : null;
  if (ms === null) {
    wrongType(node, what, 'a duration', remedy, problems);
    return null;
  }
  if (ms >= minMs && ms <= maxMs) return ms;
  const range = `from ${writeDurationMs(minMs)} to ${writeDurationMs(maxMs)}`;
  problems.error('spec/bad-value', node.at, `${what} is ${inner(node)}; a duration ${range} is allowed`, remedy);
  return null;
}

function inner(node: TreeNode): string {
  return node.kind === 'scalar' ? node.text : 'of another shape';
}

/** Reads a text, a number, a boolean or a list, in the forms that a run can set. */
export function readJson(
  node: TreeNode | null,
  what: string,
  { holds, shapes, isPrinted }: JsonType,
  problems: Problems,
): JsonSpec | null {
  if (node === null) return null;
  const value = node.kind === 'map' && !shapes.includes('object') ? null : jsonOf(node);
  const shape = Array.isArray(value) ? 'array' : typeof value;
  if (value === null || !(shapes as readonly string[]).includes(shape) || !isJson(value, shapes)) {
    wrongType(node, what, `a ${holds}`, `write a ${holds}`, problems);
    return null;
  }
  if (node.kind !== 'scalar' && refuseChanged(node, what, isPrinted ?? false, problems)) return null;
  return { at: node.at, text: node.kind === 'scalar' ? node.text : JSON.stringify(value), value, node };
}

/**
 * Rejects numbers whose digits would change. A number on its own keeps its text; in a list or mapping, only its value
 * is kept.
 * @param isPrinted  as in `JsonType`
 */
function refuseChanged(node: TreeNode, what: string, isPrinted: boolean, problems: Problems): boolean {
  const refuseIn = (inner: readonly TreeNode[]): boolean =>
    inner.filter((each) => refuseChanged(each, what, isPrinted, problems)).length > 0;
  if (node.kind === 'list') return refuseIn(node.items);
  if (node.kind === 'map') return refuseIn([...node.entries.values()].map(({ value }) => value));
  if (typeof node.value !== 'number') return false;
  // A number may be long, but has no character that `quote` escapes.
  const quoted = quote(node.text);
  const written = quoted.slice(1, -1);
  const isLost = /^[+-]?[\d.]+(?:[eE][+-]?\d+)?$/.test(node.text) ? losesValue(node.text) : isRounded(node.value);
  const becomes = String(node.value);
  if (!isLost && (!isPrinted || becomes === node.text)) return false;
  problems.error(
    'spec/bad-value',
    node.at,
    isLost
      ? `${what} has the number ${written}, which has no exact value`
      : `${what} has the number ${written}, which would become ${becomes}`,
    isLost ? `write it in quotes: ${quoted}` : `write ${becomes}, or ${quoted} in quotes to keep the text`,
  );
  return true;
}

/** Rejects numbers that YAML has and JSON lacks. Such a number on its own stays a text, if a text is allowed. */
function isJson(value: Json, shapes: JsonType['shapes']): boolean {
  if (typeof value === 'number') return shapes.includes('string') || Number.isFinite(value);
  return typeof value !== 'object' || value === null || Object.values(value).every((each: Json) => isJson(each, []));
}

function jsonOf(node: TreeNode): Json {
  if (node.kind === 'scalar') return node.value;
  if (node.kind === 'list') return node.items.map(jsonOf);
  return Object.fromEntries([...node.entries].map(([key, { value }]) => [key, jsonOf(value)]));
}

export function readBoolean(node: TreeNode | null, what: string, problems: Problems): boolean | null {
  if (node === null) return null;
  if (node.kind === 'scalar' && typeof node.value === 'boolean') return node.value;
  wrongType(node, what, '`true` or `false`', 'write `true` or `false`, without quotes', problems);
  return null;
}

/** @param remedy  the remedy for another word; absent: the list of the words */
export function readWord(
  node: TreeNode | null,
  what: string,
  words: readonly string[],
  problems: Problems,
  remedy?: string,
): Located<string> | null {
  const text = readText(node, what, problems);
  if (text === null || words.includes(text.value)) return text;
  const suggestion = remedy === undefined ? problems.suggest(text.value, words) : '';
  problems.error(
    'spec/bad-value',
    text.at,
    `${what} is ${quote(text.value)}${suggestion}`,
    remedy ?? `write one of: ${words.join(', ')}`,
  );
  return null;
}

/** Reads a name of a run, step, box, output or parameter. */
export function readName(node: TreeNode | null, what: string, problems: Problems): Located<string> | null {
  const text = readText(node, what, problems);
  if (text === null) return null;
  if (isName(text.value)) return text;
  problems.error(
    'spec/bad-name',
    text.at,
    `${what} is ${quote(text.value)}`,
    `use letters, digits, \`.\`, \`_\`, \`-\`, a letter or digit first, at most ${PLAN_LIMITS.nameLength} characters${suggestName(text.value)}`,
  );
  return null;
}

function isName(text: string): boolean {
  return text.length <= PLAN_LIMITS.nameLength && NAME.test(text);
}

/** Returns `, such as my-name` if a name can be derived from the text. */
function suggestName(text: string): string {
  if (text.length > PLAN_LIMITS.nameLength) return '';
  const made = text.replace(/[^A-Za-z0-9._-]+/g, '-').replace(/^[._-]+|[._-]+$/g, '');
  return isName(made) ? `, such as ${made}` : '';
}

export function wrongType(node: TreeNode, what: string, wanted: string, remedy: string, problems: Problems): void {
  problems.error('spec/wrong-type', node.at, `${what} must be ${wanted}, got ${describe(node)}`, remedy);
}
