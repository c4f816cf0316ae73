/** A document as values with positions: what YAML and JSON have in common, and all that the readers see. */
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
  /** As it was written, without quotes: `1e3` and `0x10` stay what the author typed. */
  readonly text: string;
  /** Where `text` begins; absent where it is not written as it is read, on one line. */
  readonly textAt?: Position;
}

export interface ListNode {
  readonly kind: 'list';
  readonly at: Position;
  /** As it was written, if that is short and on one line. */
  readonly source?: string;
  readonly items: readonly TreeNode[];
}

export interface MapNode {
  readonly kind: 'map';
  readonly at: Position;
  /** As it was written, if that is short and on one line. */
  readonly source?: string;
  readonly entries: ReadonlyMap<string, MapEntry>;
  /** A merge key was refused in it, so keys that its author wrote are not there. */
  readonly isPartial?: true;
}

export interface MapEntry {
  readonly keyAt: Position;
  readonly value: TreeNode;
}

/** A value and where it was written. */
export interface Located<T> {
  readonly value: T;
  readonly at: Position;
  /** Where a text begins, as in `ScalarNode`: mistakes in an expression have places of their own. */
  readonly textAt?: Position;
}

/** What a node is, in the words of a message. */
export function describe(node: TreeNode): string {
  if (node.kind === 'list') return 'a list';
  if (node.kind === 'map') return 'a mapping';
  if (node.value === null) return 'nothing';
  return typeof node.value === 'string' ? `the string ${quote(node.value)}` : `the ${typeof node.value} ${node.text}`;
}

/** A text as YAML takes it for nothing else. */
export function quoteYaml(text: string): string {
  if (!/["\\]/.test(text)) return `"${text}"`;
  return `'${text.replaceAll("'", "''")}'`;
}
