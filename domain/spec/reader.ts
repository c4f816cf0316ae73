/** Reads values out of a positioned tree; a value of the wrong shape is a diagnostic and then absent. */
import { PLAN_LIMITS } from '../plan/plan.ts';
import { NAME, type NumberRange } from './grammar/values.ts';
import type { Problems } from './problems.ts';
import { describe, type Located, type MapEntry, type MapNode, type Position, quote, type TreeNode } from './tree.ts';

/** A key that other versions or systems have; said instead of "unknown key". */
export interface UnsupportedKey {
  readonly severity: 'error' | 'warning';
  readonly message: string;
  readonly remedy: string;
}

/** One mapping while its keys are read. `finish` reports what nobody asked for. */
export class MapReader {
  readonly at: Position;
  readonly problems: Problems;
  /** The mapping in the words of a message: `step "a"`, `sandbox`. */
  what: string;
  readonly #entries: ReadonlyMap<string, MapEntry>;
  readonly #asked = new Set<string>();

  constructor(node: MapNode, what: string, problems: Problems) {
    this.at = node.at;
    this.#entries = node.entries;
    this.what = what;
    this.problems = problems;
  }

  /** The value of a key; null when it is absent. A key with nothing behind it counts as absent. */
  optional(key: string): TreeNode | null {
    this.#asked.add(key);
    const entry = this.#entries.get(key);
    return entry === undefined || (entry.value.kind === 'scalar' && entry.value.value === null) ? null : entry.value;
  }

  /** @param form  how the key is written, for who has not seen it yet */
  required(key: string, form = key): TreeNode | null {
    const node = this.optional(key);
    if (node === null)
      this.problems.error(
        'spec/missing-key',
        this.#entries.get(key)?.keyAt ?? this.at,
        `${this.what} has no \`${key}\``,
        `add \`${form}\``,
      );
    return node;
  }

  has(key: string): boolean {
    return this.optional(key) !== null;
  }

  keyAt(key: string): Position {
    return this.#entries.get(key)?.keyAt ?? this.at;
  }

  finish(unsupported: Readonly<Record<string, UnsupportedKey>> = {}): void {
    for (const [key, { keyAt }] of this.#entries) {
      if (this.#asked.has(key)) continue;
      const known = Object.hasOwn(unsupported, key) ? unsupported[key] : undefined;
      if (known?.severity === 'error') this.problems.error('spec/unsupported', keyAt, known.message, known.remedy);
      else if (known?.severity === 'warning')
        this.problems.warning('spec/unsupported', keyAt, known.message, known.remedy);
      else
        this.problems.warning(
          'spec/unknown-key',
          keyAt,
          `${this.what} has the unknown key ${quote(key)}${this.problems.suggestKey(key, this.#asked)}`,
          'mend its spelling or take it out: it has no effect',
        );
    }
  }
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
  wrongType(node, what, 'a list', 'write it as `[a, b]` or as lines that begin with `- `', problems);
  return [];
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
    wrongType(
      node,
      what,
      'a text',
      node.kind === 'scalar' && node.value !== null ? `put it in quotes: "${node.text}"` : 'write a text',
      problems,
    );
    return null;
  }
  if (node.text.includes('\0')) {
    problems.error(
      'spec/bad-value',
      node.at,
      `${what} has a zero byte in it`,
      'take the zero byte out: no program can be given one',
    );
    return null;
  }
  return { value: node.text, at: node.at };
}

/** A text in which no placeholder may stand. */
export function readPlainText(node: TreeNode | null, what: string, problems: Problems): Located<string> | null {
  const text = readText(node, what, problems);
  if (text === null || !text.value.includes('${{')) return text;
  problems.error(
    'spec/bad-placeholder',
    text.at,
    `${what} has a placeholder: ${quote(text.value)}`,
    'placeholders may stand in program, args and env values only; write the value out',
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
    `use letters, digits, \`.\`, \`_\`, \`-\`, a letter or digit first, at most ${PLAN_LIMITS.nameLength} characters${suchAs(text.value)}`,
  );
  return null;
}

function isName(text: string): boolean {
  return text.length <= PLAN_LIMITS.nameLength && NAME.test(text);
}

/** `, such as my-name`, where a name can be made of the text. */
function suchAs(text: string): string {
  if (text.length > PLAN_LIMITS.nameLength) return '';
  const made = text.replace(/[^A-Za-z0-9._-]+/g, '-').replace(/^[._-]+|[._-]+$/g, '');
  return isName(made) ? `, such as ${made}` : '';
}

function wrongType(node: TreeNode, what: string, wanted: string, remedy: string, problems: Problems): void {
  problems.error('spec/wrong-type', node.at, `${what} takes ${wanted} and has ${describe(node)}`, remedy);
}
