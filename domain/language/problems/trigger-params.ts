/** Finds parameters that the runs of a trigger would lack. */
import { TRIGGER_LIMITS } from '../../delivery/trigger-defaults.ts';
import type { Spec } from '../read/spec.ts';

export interface ParamWithoutValue {
  readonly trigger: Spec['on'][number];
  /** A parameter without a default, which neither the trigger nor the deployer gives. */
  readonly param: string;
}

/** More of one trigger would not help an author. */
const MOST_OF_TRIGGER = 10;

/** @param given  parameters that the deployer sets */
export function findParamsWithoutValue(
  { on, params, gaps }: Pick<Spec, 'on' | 'params' | 'gaps'>,
  given: Readonly<Record<string, string>>,
): readonly ParamWithoutValue[] {
  if (gaps.includes('params')) return [];
  const required = params
    .filter(({ name, fallback, isOpen }) => fallback === null && !isOpen && !Object.hasOwn(given, name))
    .map(({ name }) => name);
  return on.slice(0, TRIGGER_LIMITS.triggers).flatMap((trigger) => {
    const own = new Set(trigger.params.map(({ name }) => name));
    const lacking = required.filter((name) => !own.has(name)).slice(0, MOST_OF_TRIGGER);
    return lacking.map((param) => ({ trigger, param }));
  });
}
