/** The JSON-safe part of a definition: all that the engine needs for decisions, without the author's code. */
import type { SkillDefinition, StepConfig } from './definition.ts';
import { cycleMembers, type Edges } from './graph.ts';

/** How often a member of a cycle without `maxVisits` may be visited. */
export const IMPLICIT_MAX_VISITS = 10;
/** How many answers of one visit may fail the schema if the step does not set it. */
export const DEFAULT_MAX_INVALID = 10;
/** How many steps in a row may be passed without a prompt. */
export const MAX_AUTO_ADVANCE = 20;

export type NextFacts =
  | { readonly kind: 'terminal' }
  | { readonly kind: 'to'; readonly to: string }
  /** `to`: the only possible targets; null when a function may name any step. */
  | { readonly kind: 'choose'; readonly to: readonly string[] | null };

export interface RetryFacts {
  readonly maxAttempts: number;
  readonly backoffMs: number;
  readonly backoffFactor: number;
  readonly maxBackoffMs: number;
}

export interface StepFacts {
  readonly prompt: boolean;
  readonly response: boolean;
  readonly action: boolean;
  readonly save: boolean;
  readonly next: NextFacts;
  readonly inCycle: boolean;
  readonly maxVisits: number | null;
  readonly onMaxVisits: string | null;
  readonly maxInvalid: number;
  readonly retry: RetryFacts;
  readonly timeoutMs: number | null;
  readonly parallel: { readonly branches: readonly string[]; readonly join: string } | null;
  /** `durationMs` null: a callback sets it. */
  readonly wait: { readonly durationMs: number | null } | null;
  readonly human: {
    readonly deadlineMs: number | null;
    readonly onExpiry: string | null;
    readonly assignee: string | null;
  } | null;
  readonly call: string | null;
}

export interface SkillFacts {
  readonly name: string;
  readonly version: string;
  /** The hash of the code with the callbacks; null: the caller does not track it. */
  readonly codeHash: string | null;
  readonly entry: string;
  readonly finalOutput: boolean;
  /** Null: the skill declares no stores, so callbacks may write any. */
  readonly stores: readonly string[] | null;
  readonly steps: Readonly<Record<string, StepFacts>>;
  readonly hasParallel: boolean;
  readonly subskills: Readonly<Record<string, SkillFacts>>;
  readonly topics: readonly string[];
}

const known = new WeakMap<SkillDefinition, Map<string | null, SkillFacts>>();

/** Returns the facts of a definition, computed once for each definition and code hash. */
export function factsOf(definition: SkillDefinition, codeHash: string | null = null): SkillFacts {
  const byHash = known.get(definition) ?? new Map<string | null, SkillFacts>();
  known.set(definition, byHash);
  const before = byHash.get(codeHash);
  if (before !== undefined) return before;
  const facts = readFacts(definition, codeHash);
  byHash.set(codeHash, facts);
  return facts;
}

function readFacts(definition: SkillDefinition, codeHash: string | null): SkillFacts {
  const cyclic = cycleMembers(edgesOf(definition));
  const steps = Object.entries(definition.steps).map(
    ([name, { config }]) => [name, stepFacts(config, cyclic.has(name))] as const,
  );
  return {
    name: definition.name,
    version: definition.version,
    codeHash,
    entry: definition.entry,
    finalOutput: definition.finalOutput !== undefined,
    stores: definition.stores === undefined ? null : Object.keys(definition.stores),
    steps: Object.fromEntries(steps),
    hasParallel: steps.some(([, step]) => step.parallel !== null),
    subskills: Object.fromEntries(
      Object.entries(definition.subskills ?? {}).map(([name, sub]) => [name, factsOf(sub.definition, codeHash)]),
    ),
    topics: Object.keys(definition.topics ?? {}),
  };
}

function stepFacts(config: StepConfig, inCycle: boolean): StepFacts {
  const { wait, human, parallel } = config;
  return {
    prompt: config.prompt !== undefined,
    response: config.response !== undefined,
    action: config.action !== undefined,
    save: config.save !== undefined,
    next: nextFacts(config.next),
    inCycle,
    maxVisits: config.maxVisits ?? null,
    onMaxVisits: config.onMaxVisits ?? null,
    maxInvalid: config.maxInvalid ?? DEFAULT_MAX_INVALID,
    retry: {
      maxAttempts: config.retry?.maxAttempts ?? 1,
      backoffMs: config.retry?.backoffMs ?? 1_000,
      backoffFactor: config.retry?.backoffFactor ?? 2,
      maxBackoffMs: config.retry?.maxBackoffMs ?? 60_000,
    },
    timeoutMs: config.timeoutMs ?? null,
    parallel: parallel === undefined ? null : { branches: [...parallel.branches], join: parallel.join },
    wait: wait === undefined ? null : { durationMs: typeof wait.durationMs === 'number' ? wait.durationMs : null },
    human:
      human === undefined
        ? null
        : { deadlineMs: human.deadlineMs ?? null, onExpiry: human.onExpiry ?? null, assignee: human.assignee ?? null },
    call: config.call ?? null,
  };
}

function nextFacts(next: StepConfig['next']): NextFacts {
  if (typeof next === 'string') return { kind: 'to', to: next };
  if (typeof next === 'function') return { kind: 'choose', to: null };
  if (Array.isArray(next)) return { kind: 'choose', to: next.map((branch: { readonly to: string }) => branch.to) };
  return { kind: 'terminal' };
}

/**
 * Lists the steps to which each step may lead; `self` is the step itself.
 * @param chosenBy  lists the steps to which the function of a step may lead; by default all, including its own
 */
export function edgesOf(definition: SkillDefinition, chosenBy?: (step: string) => readonly string[]): Edges {
  const names = Object.keys(definition.steps);
  const edges = new Map<string, readonly string[]>();
  for (const [name, { config }] of Object.entries(definition.steps)) {
    const next = nextFacts(config.next);
    const targets =
      next.kind === 'terminal' ? [] : next.kind === 'to' ? [next.to] : (next.to ?? chosenBy?.(name) ?? names);
    const all = [
      ...targets,
      config.onMaxVisits,
      config.human?.onExpiry,
      ...(config.parallel?.branches ?? []),
      config.parallel?.join,
    ];
    const inside = all
      .map((target) => (target === 'self' ? name : target))
      .filter((target) => target !== undefined && Object.hasOwn(definition.steps, target));
    edges.set(name, [...new Set(inside as string[])]);
  }
  return edges;
}
