/** Reads values out of a positioned tree; a value of the wrong shape is a diagnostic and then absent. */
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

/** A key that other versions or systems have; said instead of "unknown key". */
export interface UnsupportedKey {
  readonly severity: 'error' | 'warning';
  /** `spec/unsupported` where it is left out. */
  readonly code?: SpecCode;
  readonly message: string;
  readonly remedy: string;
}

/** A key that a word stands for, how it is written, what is said of its value, and what is open without it. */
export interface MeantKey {
  readonly key: string;
  readonly form: string;
  readonly unit: string;
  readonly feeds?: Gap | undefined;
}

/** What is said of keys that a mapping does not have, each by its `plainKey`. */
export interface OtherKeys {
  readonly unsupported: ReadonlyMap<string, UnsupportedKey>;
  /** Keys of other mappings, what those are called, and the key that has them, if it is one of this mapping. */
  readonly misplaced: ReadonlyMap<string, MeantKey & { readonly owner: string; readonly within: string | null }>;
  /** Keys of the mapping, by other words too. */
  readonly meant: ReadonlyMap<string, MeantKey>;
}

/** Keys that mean nothing, for anchors and for other programs. */
const FREE_KEY = /^x-/;

/** One mapping while its keys are read. `finish` reports what nobody asked for, and what was asked for and is not there. */
export class MapReader {
  readonly at: Position;
  readonly problems: Problems;
  /** The mapping in the words of a message: `step "a"`, `sandbox`. */
  what: string;
  readonly #entries: ReadonlyMap<string, MapEntry>;
  readonly #isPartial: boolean;
  readonly #asked = new Set<string>();
  /** Required keys that are not there, and how they are written. */
  readonly #missing = new Map<string, { readonly form: string; readonly others: readonly string[] }>();

  constructor(node: MapNode, what: string, problems: Problems) {
    this.at = node.at;
    this.#entries = node.entries;
    this.#isPartial = node.isPartial === true;
    this.what = what;
    this.problems = problems;
  }

  /** The value of a key; null when it is absent. A key with nothing behind it counts as absent. */
  optional(key: string): TreeNode | null {
    this.#asked.add(key);
    const entry = this.#entries.get(key);
    return entry === undefined || (entry.value.kind === 'scalar' && entry.value.value === null) ? null : entry.value;
  }

  /**
   * @param form  how the key is written, for who has not seen it yet
   * @param others  keys that may stand in its place
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

  /** Once all keys were asked for. */
  finish(others: OtherKeys): void {
    for (const [word, { keyAt }] of this.#entries)
      if (!this.#asked.has(word) && !FREE_KEY.test(word)) this.#reportOther(word, keyAt, others);
    this.reportMissing();
  }

  /** Of a mapping whose other keys cannot be judged. */
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
    // A key of the other kind is refused by whatever name it has.
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

  /** Left out, the key would change the run that its author expects. */
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

  /** The key of this mapping that a misspelt one means; beside that key itself the other one may be anything. */
  #keyOfSlip(word: string, { meant }: OtherKeys): MeantKey | null {
    const absent = [...this.#asked].filter((key) => !this.#entries.has(key));
    const key = this.problems.withoutSlip(word, absent);
    return key === null ? null : (meant.get(plainKey(key)) ?? null);
  }

  /** The required key that is not there for a slip in its name. */
  #nearMissing(word: string, { meant }: OtherKeys): MeantKey | null {
    const key = this.problems.nearest(word, this.#missing.keys());
    return key === null ? null : (meant.get(plainKey(key)) ?? { key, form: key, unit: '' });
  }
}

/** `dependsOn` and `depends-on` are `depends_on` in another spelling. */
export function plainKey(word: string): string {
  return word.length > 64 ? word : word.toLowerCase().replace(/[-_ ]/g, '');
}

/** @param form  how the mapping is written, made of the text that stands in its place */
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

/** The items of a list; none when it is absent or no list. */
export function readList(node: TreeNode | null, what: string, problems: Problems): readonly TreeNode[] {
  if (node === null) return [];
  if (node.kind === 'list') return node.items;
  wrongType(node, what, 'a list', listRemedy(node), problems);
  return [];
}

/** A word in the place of a list is most often its only item. */
function listRemedy(node: TreeNode): string {
  return node.kind === 'scalar' && /^[\w./-]{1,80}$/.test(node.text)
    ? `write it as \`[${node.text}]\``
    : 'write it as `[a, b]` or as lines that begin with `- `';
}

/** Keys with texts, as of `env` and `params`. */
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

/** A text; numbers and booleans are taken as they were written when `lenient`. */
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
      'remove the zero byte: no program can take one',
    );
    return null;
  }
  const { text: value, at, textAt } = node;
  return textAt === undefined ? { value, at } : { value, at, textAt };
}

/** A mapping is seldom meant: YAML makes one of `echo a: b`, and a list of `[ -f x ]`. */
function textRemedy(node: TreeNode): string {
  const written = node.kind === 'scalar' ? node.text : (node.source ?? '');
  return written === '' ? 'write a string' : `put it in quotes: ${quoteYaml(written)}`;
}

/** A text in which no placeholder may stand. */
export function readPlainText(node: TreeNode | null, what: string, problems: Problems): Located<string> | null {
  const text = readText(node, what, problems);
  if (text === null || !text.value.includes('${{')) return text;
  problems.error(
    'spec/bad-placeholder',
    text.at,
    `${what} has a placeholder: ${quote(text.value)}`,
    'write the value out: placeholders are filled in in programs, arguments, variables, messages, prompts and params',
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

/** In milliseconds. */
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

/** A text, a number, a boolean or a list, as a run could give it. */
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
 * Alone a number is kept as it is written; in a list or mapping it becomes another one.
 * @param isPrinted  as of `JsonType`
 */
function refuseChanged(node: TreeNode, what: string, isPrinted: boolean, problems: Problems): boolean {
  const refuseIn = (inner: readonly TreeNode[]): boolean =>
    inner.filter((each) => refuseChanged(each, what, isPrinted, problems)).length > 0;
  if (node.kind === 'list') return refuseIn(node.items);
  if (node.kind === 'map') return refuseIn([...node.entries.values()].map(({ value }) => value));
  if (typeof node.value !== 'number') return false;
  // A number has no character that `quote` escapes; it may be long.
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

/** YAML has numbers that JSON has not; alone they are kept as text, where a text may stand. */
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

/** @param remedy  what to write instead of another word, where that is not a list of the words */
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

/** A name of a run, step, box, output or parameter. */
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

/** `, such as my-name`, where a name can be made of the text. */
function suggestName(text: string): string {
  if (text.length > PLAN_LIMITS.nameLength) return '';
  const made = text.replace(/[^A-Za-z0-9._-]+/g, '-').replace(/^[._-]+|[._-]+$/g, '');
  return isName(made) ? `, such as ${made}` : '';
}

export function wrongType(node: TreeNode, what: string, wanted: string, remedy: string, problems: Problems): void {
  problems.error('spec/wrong-type', node.at, `${what} must be ${wanted}, got ${describe(node)}`, remedy);
}
