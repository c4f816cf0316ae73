/** Splits a text of a trigger. Unlike a text of a stage, each of its placeholders is an expression over a delivery. */
import type { PlacedExpression } from './placeholders.ts';
import { matchPlaceholders } from './placeholder-matches.ts';

/**
 * Returns literal texts and expressions in their order; `$${{` is the literal `${{`. Null: a placeholder is not closed,
 * which the compiler refuses.
 */
export function splitTriggerText(text: string): readonly (string | PlacedExpression)[] | null {
  const parts: (string | PlacedExpression)[] = [];
  let literal = '';
  let done = 0;
  for (const { index, found, inner } of matchPlaceholders(text)) {
    literal += text.slice(done, index);
    done = index + found.length;
    if (inner === undefined) {
      if (found !== '$${{') return null;
      literal += '${{';
      continue;
    }
    if (literal !== '') parts.push(literal);
    literal = '';
    const source = inner.trim();
    parts.push({ source, offset: index + found.indexOf(source, 3) });
  }
  literal += text.slice(done);
  return literal === '' ? parts : [...parts, literal];
}

/** Whether the value of a text depends on the delivery. */
export function hasTriggerExpression(text: string): boolean {
  return splitTriggerText(text)?.some((part) => typeof part !== 'string') ?? false;
}
