/** Values of a spec that may be of several shapes. */
import type { Position, TreeNode } from '../text/tree.ts';

/** A value as JSON and YAML write it. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };

/** A value, as it was written. */
export interface JsonSpec<V extends Json = Json> {
  readonly at: Position;
  /** Of a list or mapping, its JSON. */
  readonly text: string;
  readonly value: V;
  /** For the places of what stands in it. */
  readonly node: TreeNode;
}

/** A value of one of several shapes: a text, a number, a boolean, or a list or mapping of anything. */
export interface JsonType {
  readonly is: 'json';
  /** What it is called in the docs. */
  readonly holds: string;
  readonly shapes: readonly ('string' | 'number' | 'boolean' | 'array' | 'object')[];
  /** Commands get its lists and mappings as JSON: a number in them that JSON writes with other digits is refused. */
  readonly isPrinted?: true;
}
