/** A step machine as a drawing needs it: steps in the order in which they are reached, and every way between them. Pure. */
import type { SkillDefinition, StepConfig } from '../../domain/step-machine/definition.ts';
import { edgesOf } from '../../domain/step-machine/facts.ts';
import { findComponents, findReachable } from '../../domain/step-machine/graph.ts';
import type { SkillInsight } from '../lint/skill-insight.ts';

export type EdgeKind =
  /** Always. */
  | 'next'
  /** A branch with a condition, and the one without. */
  | 'if'
  | 'else'
  /** A name that a function returns somewhere. */
  | 'possible'
  /** A function whose targets are not known; `to` is null. */
  | 'unknown'
  /** Instead of one visit too many. */
  | 'max-visits'
  /** No person has answered in time. */
  | 'expiry'
  | 'parallel';

export interface GraphEdge {
  readonly from: string;
  /** A step, `subskill:<name>`, `topic:<name>`; null: the end, or with `unknown` anywhere. */
  readonly to: string | null;
  readonly kind: EdgeKind;
  /** Leads back into a circle. */
  readonly isBack: boolean;
}

export interface GraphStep {
  readonly name: string;
  readonly isEntry: boolean;
  /** The skill can end here. */
  readonly isTerminal: boolean;
  /** False only if the step is certainly unreachable. */
  readonly isReachable: boolean;
  readonly prompt: boolean;
  readonly action: boolean;
  readonly maxVisits: number | null;
  /** `durationMs` null: a function computes it. */
  readonly wait: { readonly durationMs: number | null } | null;
  readonly human: { readonly deadlineMs: number | null; readonly assignee: string | null } | null;
  /** The sub-skill that it runs and comes back from. */
  readonly call: string | null;
  /** Where its parallel branches meet. */
  readonly joinsAt: string | null;
  /** Steps whose branches meet here. */
  readonly joinOf: readonly string[];
}

export interface SkillGraph {
  readonly name: string;
  readonly version: string;
  /** Variables that it declares, without those of its sub-skills. */
  readonly env: readonly string[];
  /** The steps in the order in which they are reached; unreachable steps come last. */
  readonly steps: readonly GraphStep[];
  readonly edges: readonly GraphEdge[];
  readonly topics: readonly { readonly name: string; readonly label: string }[];
  readonly subskills: readonly { readonly name: string; readonly graph: SkillGraph }[];
}

/** @param insightOf  returns the facts that the source gives about functions */
export function graphOf(definition: SkillDefinition, insightOf: (skill: SkillDefinition) => SkillInsight): SkillGraph {
  const insight = insightOf(definition);
  const ways = edgesOf(definition, (step) => insight.targetsOf(step)?.names ?? []);
  const reached = Object.hasOwn(definition.steps, definition.entry) ? [...findReachable(ways, [definition.entry])] : [];
  const isOpen = reached.some(
    (step) => typeof definition.steps[step]!.config.next === 'function' && insight.targetsOf(step)?.isComplete !== true,
  );
  const order = [...new Set([...reached, ...Object.keys(definition.steps)])];
  const rank = new Map(order.map((step, index) => [step, index]));
  const circle = new Map(
    findComponents(ways).flatMap((members, index) => members.map((step) => [step, index] as const)),
  );
  const isBack = (from: string, to: string | null): boolean =>
    to !== null &&
    circle.get(to) !== undefined &&
    circle.get(from) === circle.get(to) &&
    rank.get(to)! <= rank.get(from)!;
  const configs = order.map((name) => [name, definition.steps[name]!.config] as const);
  const edges = configs.flatMap(([from, config]) =>
    exits(from, config, insight).map(({ to, kind }) => ({ from, to, kind, isBack: isBack(from, to) })),
  );
  return {
    name: definition.name,
    version: definition.version,
    env: definition.env ?? [],
    steps: configs.map(([name, config]) => ({
      ...stepOf(name, config),
      isEntry: name === definition.entry,
      isTerminal: edges.some(({ from, to, kind }) => from === name && to === null && kind !== 'unknown'),
      isReachable: isOpen || reached.includes(name),
      joinOf: configs.filter(([, other]) => other.parallel?.join === name).map(([fork]) => fork),
    })),
    edges,
    topics: Object.entries(definition.topics ?? {}).map(([name, { label }]) => ({ name, label })),
    subskills: Object.entries(definition.subskills ?? {}).map(([name, sub]) => ({
      name,
      graph: graphOf(sub.definition, insightOf),
    })),
  };
}

function stepOf(
  name: string,
  { prompt, action, maxVisits, wait, human, call, parallel }: StepConfig,
): Omit<GraphStep, 'isEntry' | 'isTerminal' | 'isReachable' | 'joinOf'> {
  return {
    name,
    prompt: prompt !== undefined,
    action: action !== undefined,
    maxVisits: maxVisits ?? null,
    wait: wait === undefined ? null : { durationMs: typeof wait.durationMs === 'number' ? wait.durationMs : null },
    human: human === undefined ? null : { deadlineMs: human.deadlineMs ?? null, assignee: human.assignee ?? null },
    call: call ?? null,
    joinsAt: parallel?.join ?? null,
  };
}

type Exit = Pick<GraphEdge, 'to' | 'kind'>;

function exits(
  step: string,
  { next, onMaxVisits, human, parallel }: StepConfig,
  insight: SkillInsight,
): readonly Exit[] {
  const to = (target: string): string => (target === 'self' ? step : target);
  const found: Exit[] = (parallel?.branches ?? []).map((branch) => ({ to: branch, kind: 'parallel' }));
  if (typeof next === 'string') found.push({ to: to(next), kind: 'next' });
  else if (typeof next === 'function') {
    const known = insight.targetsOf(step);
    found.push(...(known?.names ?? []).map((name) => ({ to: to(name), kind: 'possible' as const })));
    if (known?.isComplete !== true) found.push({ to: null, kind: 'unknown' });
  } else if (Array.isArray(next)) {
    const branches = next as readonly { readonly to: string; readonly when?: unknown }[];
    found.push(
      ...branches.map((branch, index) => ({
        to: to(branch.to),
        kind: branch.when ? ('if' as const) : index === 0 ? ('next' as const) : ('else' as const),
      })),
    );
  } else if (next !== undefined) found.push({ to: null, kind: 'next' });
  if (onMaxVisits !== undefined) found.push({ to: to(onMaxVisits), kind: 'max-visits' });
  if (human?.onExpiry !== undefined) found.push({ to: to(human.onExpiry), kind: 'expiry' });
  return found;
}
