/** Combines the condition of a part with the conditions of its stages. */
import { toCanonicalJson } from '../units/canonical-json.ts';
import type { ConditionPlan } from './plan.ts';

const BEFORE = '(';
const BETWEEN = '\n) && (';
const BEHIND = '\n)';

/** Joins two conditions: both have to hold. Each may end in a comment. */
export function joinSources(outer: string, inner: string): string {
  return `${BEFORE}${outer}${BETWEEN}${inner}${BEHIND}`;
}

/**
 * Returns true if a stage with the one condition never runs when a stage with the other is passed over. Stages of a
 * part have the condition of the part, on its own or before their own condition.
 */
export function holdsOnlyWith(one: ConditionPlan, other: ConditionPlan): boolean {
  const isSame = ([name, value]: [string, unknown]): boolean =>
    Object.hasOwn(one.params, name) && toCanonicalJson(one.params[name]) === toCanonicalJson(value);
  return includesSource(one.source, other.source) && Object.entries(other.params).every(isSame);
}

function includesSource(one: string, other: string): boolean {
  if (one === other || one.startsWith(`${BEFORE}${other}${BETWEEN}`)) return true;
  for (let at = other.indexOf(BETWEEN); at !== -1; at = other.indexOf(BETWEEN, at + 1)) {
    const outer = other.slice(0, at + BETWEEN.length);
    if (!one.startsWith(outer) || !one.endsWith(BEHIND) || !other.endsWith(BEHIND)) continue;
    const inner = (text: string): string => text.slice(outer.length, -BEHIND.length);
    if (includesSource(inner(one), inner(other))) return true;
  }
  return false;
}
