import {
  isAlias,
  isMap,
  isNode,
  isPair,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  type Node,
  type Pair,
  parseDocument,
  type Scalar,
  visit,
  type YAMLParseError,
} from 'yaml';
import { readExactJson } from '../../units/exact-json.ts';
import { countUtf8Bytes } from '../../units/utf8.ts';
import { GAPS, type Problems } from './diagnostics.ts';
import { quoteYaml, type MapEntry, type Position, type TreeNode } from './tree.ts';
import { quote } from '../../units/quote.ts';

/** Limits of a text, which is not trusted. */
export const SOURCE_LIMITS = {
  bytes: 1024 * 1024,
  /** Tokens of YAML, which determine the time to read: a text of only quotes would block a worker for many seconds. */
  tokens: 300_000,
  /** Nested lists and mappings. */
  depth: 32,
  /** Values after aliases are expanded, so that a few lines cannot expand to billions. */
  nodes: 200_000,
} as const;

const START: Position = { line: 1, column: 1 };

/**
 * Reads a text as YAML, which includes JSON; null if nothing of it can be used.
 * @param isJson  true if its author writes JSON, so that mistakes are described in terms of JSON
 */
export function readSource(text: string, problems: Problems, isJson = false): TreeNode | null {
  if (text.length > SOURCE_LIMITS.bytes || countUtf8Bytes(text) > SOURCE_LIMITS.bytes) {
    problems.error(
      'spec/too-large',
      START,
      `the spec has more than ${SOURCE_LIMITS.bytes} bytes`,
      'keep data out of the spec: mount a folder, or let a command fetch it',
    );
    return null;
  }
  if (hasTooManyTokens(text)) {
    problems.error(
      'spec/too-large',
      START,
      `the spec has more than ${SOURCE_LIMITS.tokens} YAML tokens`,
      'keep data out of the spec: mount a folder, or let a command fetch it',
    );
    return null;
  }
  const lines = new LineCounter();
  const document = parseDocument(text, {
    lineCounter: lines,
    prettyErrors: false,
    strict: true,
    uniqueKeys: false,
    version: '1.2',
    keepSourceTokens: false,
  });
  const position = (offset: number): Position => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(1, line), column: Math.max(1, col) };
  };
  // YAML allows more than JSON, such as a comma before a closing bracket, at which other readers of the file would
  // fail.
  const isYaml = document.errors.length === 0;
  if (isJson && document.contents !== null && reportJsonMistake(text, isYaml, position, problems)) return null;
  const broken = new Set<number>();
  for (const error of document.errors) {
    const at = position(error.pos[0]);
    // Further errors in a line with an error are noise of the parser.
    if (broken.has(at.line)) continue;
    broken.add(at.line);
    // The library composes recursively, and reports this error if it runs out of stack.
    if (/call stack/.test(error.message))
      problems.error(
        'spec/too-large',
        at,
        `values are nested more than ${SOURCE_LIMITS.depth} deep`,
        'nest the values less',
      );
    else if (error.code === 'MULTIPLE_DOCS')
      problems.error('spec/syntax', at, 'the text contains more than one YAML document', 'keep one spec per file');
    else if (isLoneDash(text, error))
      problems.error('spec/syntax', at, 'a `-` without quotes begins an item of a list', 'put it in quotes: "-"');
    else {
      const opened = openQuoteBefore(document.contents, error);
      if (opened === null) {
        problems.error('spec/syntax', at, lowerFirst(error.message), syntaxRemedy(text, error));
        continue;
      }
      problems.error(
        'spec/syntax',
        position(opened),
        'the quote that opens here is not closed',
        'close it with the same sign before the end of the value',
      );
      // The parser read the rest of the text as part of the open quote.
      break;
    }
  }
  if (document.errors.length > 0) return null;
  if (document.contents === null) {
    problems.error(
      'spec/syntax',
      START,
      'the spec is empty',
      'write at least `kind`, `name` and a section; `voidbox init` writes an example',
    );
    return null;
  }
  return new TreeBuilder(text, position, problems).build(document.contents);
}

/** Returns false if the text is valid JSON, so that any mistake is not one of syntax. */
function reportJsonMistake(
  text: string,
  isYaml: boolean,
  position: (offset: number) => Position,
  problems: Problems,
): boolean {
  // Some editors on Windows begin a file with a byte order mark; the YAML parser skips it too.
  const start = text.startsWith('\ufeff') ? 1 : 0;
  const read = readExactJson(text.slice(start));
  if ('value' in read || read.isTooDeep) return false;
  const at = start + read.at;
  const before = text.slice(0, at).trimEnd().at(-1);
  const found = text.codePointAt(at);
  const character = found === undefined ? null : String.fromCodePoint(found);
  problems.error(
    'spec/syntax',
    position(Math.min(at, text.length)),
    character === null
      ? 'the JSON ends too early'
      : `the JSON cannot continue with ${character === '"' ? 'a quote' : quote(character)}`,
    before === ',' && (character === '}' || character === ']')
      ? 'remove the comma before it'
      : isYaml
        ? 'write JSON, without comments and with names in double quotes; a file of YAML is named `.yaml`'
        : 'fix the JSON at this place; a comma, a quote or a bracket too few or too many is the usual cause',
  );
  return true;
}

/** Whether the error is at a bare dash, as in `[-]` and `[-, x]`. */
function isLoneDash(text: string, { code, pos: [offset] }: YAMLParseError): boolean {
  if (code !== 'BLOCK_IN_FLOW' && code !== 'MULTILINE_IMPLICIT_KEY') return false;
  const line = text.slice(text.lastIndexOf('\n', offset - 1) + 1, offset + 2);
  return /[[,]\s*-\s*[\],]/.test(line);
}

/** Returns the start of a text whose closing quote is missing; null if the error has another cause. */
function openQuoteBefore(contents: Node | null, { code, message, pos: [offset] }: YAMLParseError): number | null {
  if (code !== 'MISSING_CHAR' || !/^Missing closing ["']quote/.test(message) || contents === null) return null;
  let opened: number | null = null;
  visit(contents, {
    Scalar(_key, { range, type }) {
      if ((type !== 'QUOTE_DOUBLE' && type !== 'QUOTE_SINGLE') || !range) return;
      if (range[0] < offset && offset <= range[2]) opened = range[0];
    },
  });
  return opened;
}

function syntaxRemedy(text: string, { code, pos: [offset, end] }: YAMLParseError): string {
  // A value without quotes in `[…]` or `{…}` ends at a brace.
  if (text.slice(Math.max(0, offset - 2), offset + 3).includes('${{'))
    return 'put the value with the placeholder in quotes: "${{ params.name }}"';
  const quoteIt = (value: string): string | null =>
    /:\s/.test(value) && isShort(value) ? `put a value that holds \`: \` in quotes: ${quoteYaml(value)}` : null;
  const [toEndOfLine = ''] = /^[^\r\n]{0,120}?(?=\s+#|\s*$)/m.exec(text.slice(offset, offset + 121)) ?? [];
  const quoted =
    code === 'BLOCK_AS_IMPLICIT_KEY'
      ? quoteIt(toEndOfLine)
      : code === 'BLOCK_IN_FLOW'
        ? quoteIt(text.slice(offset, end).trim())
        : null;
  return quoted ?? 'fix the YAML at this place; indentation and quotes are the usual causes';
}

/** Whether a text is short enough for a remedy. */
function isShort(text: string): boolean {
  return text.length <= 80 && !/\p{Cc}/u.test(text);
}

function hasTooManyTokens(text: string): boolean {
  // A token has at least one character.
  if (text.length <= SOURCE_LIMITS.tokens) return false;
  const tokens = new Lexer().lex(text);
  for (let count = 0; count <= SOURCE_LIMITS.tokens; count += 1) if (tokens.next().done === true) return false;
  return true;
}

class TreeBuilder {
  readonly #text: string;
  readonly #position: (offset: number) => Position;
  /** Anchors so far, and the meaning of each alias: the nearest anchor before it. */
  readonly #anchors = new Map<string, Node>();
  readonly #targets = new Map<Node, Node | null>();
  readonly #problems: Problems;
  /** Mappings whose merge key was reported: an alias repeats the mapping, but not the mistake. */
  readonly #refusedMerges = new Set<Node>();
  #nodes = 0;

  constructor(text: string, position: (offset: number) => Position, problems: Problems) {
    this.#text = text;
    this.#position = position;
    this.#problems = problems;
  }

  build(root: Node): TreeNode | null {
    try {
      return this.#node(root, 0);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.#problems.error(
        'spec/too-large',
        error.at,
        error.message,
        'write the values out instead of nesting or repeating them by alias',
      );
      return null;
    }
  }

  #node(node: Node, depth: number): TreeNode {
    const at = this.#at(node);
    this.#nodes += 1;
    if (this.#nodes > SOURCE_LIMITS.nodes)
      throw new Refused(at, `the spec has more than ${SOURCE_LIMITS.nodes} values once its aliases are expanded`);
    if (depth > SOURCE_LIMITS.depth) throw new Refused(at, `values are nested more than ${SOURCE_LIMITS.depth} deep`);
    if (isAlias(node)) {
      if (!this.#targets.has(node)) this.#targets.set(node, this.#anchors.get(node.source) ?? null);
      const target = this.#targets.get(node) ?? null;
      if (target !== null) return { ...this.#node(target, depth + 1), at };
      this.#problems.error(
        'spec/syntax',
        at,
        `the alias *${node.source} has no earlier anchor`,
        `write &${node.source} where the value is first written`,
      );
      return { kind: 'scalar', at, value: null, text: '' };
    }
    const { anchor } = node as { anchor?: string };
    if (anchor !== undefined && !this.#targets.has(node)) {
      this.#targets.set(node, node);
      this.#anchors.set(anchor, node);
    }
    if (isScalar(node)) return { ...scalar(node.value, node.source, at), ...this.#textAt(node, at) };
    if (isSeq(node))
      return { kind: 'list', at, ...this.#source(node), items: node.items.map((item) => this.#child(item, at, depth)) };
    if (isMap(node)) return { ...this.#map(node.items as Pair<Node, Node | null>[], at, depth), ...this.#source(node) };
    return { kind: 'scalar', at, value: null, text: '' };
  }

  #map(pairs: readonly Pair<Node, Node | null>[], at: Position, depth: number): TreeNode {
    const entries = new Map<string, MapEntry>();
    const merge = pairs.find(({ key }) => isMergeKey(key))?.key;
    if (merge !== undefined) this.#refuseMerge(merge);
    for (const pair of pairs) {
      if (isMergeKey(pair.key)) {
        // The value may contain anchors.
        this.#child(pair.value, at, depth);
        continue;
      }
      const keyAt = this.#at(pair.key);
      const key = isScalar(pair.key) ? scalar(pair.key.value, pair.key.source, keyAt).text : null;
      const value = this.#child(pair.value, keyAt, depth);
      if (key === null)
        this.#problems.error(
          'spec/wrong-type',
          keyAt,
          'a key is a list, a mapping or an alias',
          'write keys as plain words',
        );
      else if (entries.has(key))
        this.#problems.error(
          'spec/duplicate-key',
          keyAt,
          `the key ${quote(key)} appears twice, first on line ${entries.get(key)!.keyAt.line}`,
          'keep one of them',
        );
      else entries.set(key, { keyAt, value });
    }
    return { kind: 'map', at, entries, ...(merge === undefined ? {} : { isPartial: true }) };
  }

  #refuseMerge(key: Node): void {
    if (this.#refusedMerges.has(key)) return;
    this.#refusedMerges.add(key);
    this.#problems.error(
      'spec/unsupported',
      this.#at(key),
      'a YAML merge key (`<<`) is not supported',
      'write its keys out, or write them once in `defaults`; an alias may stand for a whole value',
    );
    // The merged keys may be any.
    for (const gap of GAPS) this.#problems.gap(gap);
  }

  #textAt({ range, value }: Scalar, { line, column }: Position): { readonly textAt?: Position } {
    if (!range || typeof value !== 'string' || /[\r\n]/.test(value)) return {};
    const written = this.#text.slice(range[0], range[1]);
    if (written === value) return { textAt: { line, column } };
    return /^["']/.test(written) && written.slice(1, -1) === value ? { textAt: { line, column: column + 1 } } : {};
  }

  #source(node: Node): { readonly source?: string } {
    const [start, end] = [node.range?.[0], endOf(node)];
    if (start === undefined || end === null || end - start > 80) return {};
    const source = this.#text.slice(start, end);
    return isShort(source) ? { source } : {};
  }

  /** An absent value has the position of its key or list. */
  #child(node: unknown, owner: Position, depth: number): TreeNode {
    return node === null || node === undefined
      ? { kind: 'scalar', at: owner, value: null, text: '' }
      : this.#node(node as Node, depth + 1);
  }

  #at(node: Node): Position {
    return node.range ? this.#position(node.range[0]) : START;
  }
}

/** Returns the end of a value; the parser also counts lines and comments after its last part. */
function endOf(node: Node): number | null {
  if ((isMap(node) || isSeq(node)) && node.flow !== true) {
    const last: unknown = node.items.at(-1);
    const inner = isPair(last) ? (last.value ?? last.key) : last;
    return isNode(inner) ? endOf(inner) : null;
  }
  return node.range?.[1] ?? null;
}

class Refused extends Error {
  readonly at: Position;

  constructor(at: Position, message: string) {
    super(message);
    this.at = at;
  }
}

function scalar(value: unknown, source: string | undefined, at: Position): TreeNode & { readonly kind: 'scalar' } {
  if (typeof value === 'string') return { kind: 'scalar', at, value, text: value };
  if (typeof value === 'number' || typeof value === 'boolean')
    return { kind: 'scalar', at, value, text: source ?? String(value) };
  return { kind: 'scalar', at, value: null, text: source ?? '' };
}

/** A merge key in quotes is an ordinary key, as in JSON. */
function isMergeKey(key: Node): boolean {
  return isScalar(key) && key.value === '<<' && (key.type === undefined || key.type === 'PLAIN');
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}
