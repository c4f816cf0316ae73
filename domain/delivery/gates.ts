import { type Gate, GATES } from './decision.ts';

/** Whether a gate is behind another one. */
export function isAfter(gate: Gate, other: Gate): boolean {
  return GATES.indexOf(gate) > GATES.indexOf(other);
}
