/** Reads the source of the items of `for_each`. */
import { type JsonValue, PLAN_LIMITS } from '../../plan/plan.ts';
import type { Located } from '../text/tree.ts';
import type { StageSpec } from './spec.ts';

/** One member: `.name`, `["name"]` or `['name']`. */
const MEMBER = /\s*(?:\.\s*([A-Za-z_][A-Za-z0-9_]*)|\[\s*(?:"([^"\\]*)"|'([^'\\]*)')\s*\])\s*/y;

/** A pattern of files below the spec's folder. */
const FILES = /^\s*files\(\s*(?:"([^"\\]*)"|'([^'\\]*)')\s*\)\s*$/;

/** The source of the items. An expression must be one of CEL that names one value. */
export type ItemSource =
  | { readonly kind: 'inline'; readonly items: readonly JsonValue[] }
  | { readonly kind: 'param'; readonly name: Located<string> }
  | { readonly kind: 'files'; readonly pattern: Located<string> }
  | { readonly kind: 'stage'; readonly name: Located<string>; readonly path: readonly string[] };

/** Returns null if the stage runs once, or if its `for_each` is not a list. */
export function itemSourceOf({ forEach }: Pick<StageSpec, 'forEach'>): ItemSource | null {
  if (forEach === null) return null;
  const { value, at } = forEach;
  if (Array.isArray(value)) return { kind: 'inline', items: value as readonly JsonValue[] };
  const files = typeof value === 'string' ? FILES.exec(value) : null;
  if (files !== null) return { kind: 'files', pattern: { value: files[1] ?? files[2] ?? '', at } };
  const words = typeof value === 'string' ? membersOf(value) : null;
  const [root, name, field, ...path] = words ?? [];
  if (name === undefined) return null;
  if (root === 'params' && field === undefined) return { kind: 'param', name: { value: name, at } };
  return root === 'stages' && field === 'json' && path.length <= PLAN_LIMITS.listPath
    ? { kind: 'stage', name: { value: name, at }, path }
    : null;
}

function membersOf(text: string): readonly string[] | null {
  const root = /^\s*(params|stages)\b/.exec(text);
  if (root === null) return null;
  const words = [root[1]!];
  let at = root[0].length;
  while (at < text.length) {
    MEMBER.lastIndex = at;
    const match = MEMBER.exec(text);
    if (match === null) return null;
    words.push(match[1] ?? match[2] ?? match[3] ?? '');
    at = MEMBER.lastIndex;
  }
  return words;
}
