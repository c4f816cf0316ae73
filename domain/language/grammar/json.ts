/** Values of a spec that may have several shapes. */
import type { Position, TreeNode } from '../text/tree.ts';

/** A value that JSON and YAML can write. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };

/** A value with its source. */
export interface JsonSpec<V extends Json = Json> {
  readonly at: Position;
  /** The source of the value; for a list or mapping, its JSON. */
  readonly text: string;
  readonly value: V;
  /** The node, for the places of values within it. */
  readonly node: TreeNode;
}

/** The type of a value of several shapes: a text, a number, a boolean, or a list or mapping with any content. */
export interface JsonType {
  readonly is: 'json';
  /** The type's name in the docs. */
  readonly holds: string;
  readonly shapes: readonly ('string' | 'number' | 'boolean' | 'array' | 'object')[];
  /**
   * Commands get its lists and mappings as JSON: the reader rejects a number in them that JSON would write with other
   * digits.
   */
  readonly isPrinted?: true;
}
