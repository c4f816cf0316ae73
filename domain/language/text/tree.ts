/** A document as values with positions: the common form of YAML and JSON, and the only input of the readers. */
import { quote } from '../../units/quote.ts';
export interface Position {
  /** From 1. */
  readonly line: number;
  /** From 1. */
  readonly column: number;
}

export type TreeNode = ScalarNode | ListNode | MapNode;

export interface ScalarNode {
  readonly kind: 'scalar';
  readonly at: Position;
  readonly value: string | number | boolean | null;
  /** The value as it was written, without quotes: `1e3` and `0x10` stay unchanged. */
  readonly text: string;
  /** The start of `text`. Absent if the source differs from `text`, or has several lines. */
  readonly textAt?: Position;
}

export interface ListNode {
  readonly kind: 'list';
  readonly at: Position;
  /** The source, if it is short and on one line. */
  readonly source?: string;
  readonly items: readonly TreeNode[];
}

export interface MapNode {
  readonly kind: 'map';
  readonly at: Position;
  /** The source, if it is short and on one line. */
  readonly source?: string;
  readonly entries: ReadonlyMap<string, MapEntry>;
  /** True if a merge key in the mapping was rejected, so that keys of its author are missing. */
  readonly isPartial?: true;
}

export interface MapEntry {
  readonly keyAt: Position;
  readonly value: TreeNode;
}

/** A value and its place. */
export interface Located<T> {
  readonly value: T;
  readonly at: Position;
  /** The start of a text, as in `ScalarNode`, because mistakes in an expression have their own places. */
  readonly textAt?: Position;
}

/** Describes a node for a message. */
export function describe(node: TreeNode): string {
  if (node.kind === 'list') return 'a list';
  if (node.kind === 'map') return 'a mapping';
  if (node.value === null) return 'nothing';
  return typeof node.value === 'string' ? `the string ${quote(node.value)}` : `the ${typeof node.value} ${node.text}`;
}

/** Quotes a text so that YAML reads it as nothing else. */
export function quoteYaml(text: string): string {
  if (!/["\\]/.test(text)) return `"${text}"`;
  return `'${text.replaceAll("'", "''")}'`;
}
