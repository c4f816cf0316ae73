/** What is wrong with a built definition, with what its source adds where that is at hand. Pure. */
import {
  PARENT_TARGET,
  type PromptPiece,
  type SkillDefinition,
  type StepConfig,
} from '../../domain/step-machine/definition.ts';
import { diagnoseAlone } from '../../domain/step-machine/diagnose.ts';
import { edgesOf } from '../../domain/step-machine/facts.ts';
import { components, type Edges, reachable } from '../../domain/step-machine/graph.ts';
import { splitTarget } from '../../domain/step-machine/moves.ts';
import { inputJsonSchema } from '../author/schema.ts';
import { askMismatches } from './ask-options.ts';
import type { LintDiagnostic } from './diagnostic.ts';
import { RULES, type RuleName } from './rules.ts';
import { toolsNamedIn } from './tool-names.ts';

/** What the source says of one skill. Without it functions are unknown. */
export interface SkillInsight {
  /** Names that the step's `next` function returns. */
  targetsOf(step: string): { readonly names: readonly string[]; readonly isComplete: boolean } | null;
  /** Options of the questions in its prompt; null: the prompt was not found. */
  asksOf(step: string): readonly (readonly string[] | null)[] | null;
}

export interface Finding extends LintDiagnostic {
  readonly skill: SkillDefinition;
  /** Names of the sub-skills that lead to it. */
  readonly path: readonly string[];
  /** Which of the step's questions. */
  readonly ask?: number;
  /** The name in question, if it is one that a `next` function returns. */
  readonly target?: string;
}

const NO_INSIGHT: SkillInsight = { targetsOf: () => null, asksOf: () => null };

/** Sub-skills included. A sub-skill that is registered twice is looked at in both places. */
export function definitionFindings(
  definition: SkillDefinition,
  insightOf: (skill: SkillDefinition) => SkillInsight = () => NO_INSIGHT,
  path: readonly string[] = [],
): readonly Finding[] {
  const insight = insightOf(definition);
  const found: Finding[] = [];
  const prefix = path.map((name) => `[subskill:${name}] `).join('');
  const add: Add = (rule, message, { severity, ...more } = {}) => {
    const declared = RULES[rule].severity;
    found.push({
      rule,
      severity: severity ?? (declared === 'warning' ? 'warning' : 'error'),
      message: prefix + message,
      remedy: RULES[rule].remedy,
      skill: definition,
      path,
      ...more,
    });
  };
  for (const { rule, message, step, severity } of diagnoseAlone(definition))
    add(rule, message, { severity, ...(step === undefined ? {} : { step }) });
  // Those of a sub-skill are given by code.
  if (path.length === 0 && definition.params !== undefined && inputJsonSchema(definition.params) === null)
    add('no-json-schema', `The schema (${definition.params['~standard'].vendor}) of the params has no JSON Schema.`);
  const edges = edgesOf(definition, (step) => insight.targetsOf(step)?.names ?? []);
  checkCycles(definition, edges, add);
  checkReach(definition, edges, insight, add);
  for (const [step, { config }] of Object.entries(definition.steps)) {
    checkReturned(definition, step, insight, add);
    checkText(step, config, insight, add);
    checkSchema(step, config, add);
    checkAsks(step, config, insight, add);
  }
  for (const [name, sub] of Object.entries(definition.subskills ?? {}))
    found.push(...definitionFindings(sub.definition, insightOf, [...path, name]));
  return found;
}

type Add = (
  rule: RuleName,
  message: string,
  more?: Partial<Pick<Finding, 'severity' | 'step' | 'ask' | 'target'>>,
) => void;

/** One limit in a circle bounds the whole circle. */
function checkCycles({ steps }: SkillDefinition, edges: Edges, add: Add): void {
  const open = Object.keys(steps).filter((step) => steps[step]!.config.maxVisits === undefined);
  const isOpen = new Set(open);
  const unbounded: Edges = new Map(open.map((step) => [step, edges.get(step)!.filter((target) => isOpen.has(target))]));
  for (const members of components(unbounded)) {
    if (members.length === 1 && !unbounded.get(members[0]!)!.includes(members[0]!)) continue;
    const inOrder = open.filter((step) => members.includes(step));
    const [step] = inOrder as [string, ...string[]];
    const message =
      members.length === 1
        ? `Step "${step}" leads to itself without maxVisits.`
        : `Steps ${inOrder.map((one) => `"${one}"`).join(', ')} lead to each other without maxVisits.`;
    add('cycle-guard', message, { step });
  }
}

function checkReach(definition: SkillDefinition, edges: Edges, insight: SkillInsight, add: Add): void {
  if (!Object.hasOwn(definition.steps, definition.entry)) return;
  const reached = reachable(edges, [definition.entry]);
  const mayLeadAnywhere = [...reached].some(
    (step) => typeof definition.steps[step]!.config.next === 'function' && insight.targetsOf(step)?.isComplete !== true,
  );
  if (mayLeadAnywhere) return;
  for (const step of Object.keys(definition.steps))
    if (!reached.has(step))
      add('unreachable-step', `No way leads from "${definition.entry}" to step "${step}".`, { step });
}

function checkReturned(definition: SkillDefinition, step: string, insight: SkillInsight, add: Add): void {
  if (typeof definition.steps[step]!.config.next !== 'function') return;
  for (const target of insight.targetsOf(step)?.names ?? []) {
    const [kind, name] = splitTarget(target);
    const known = kind === 'subskill' ? definition.subskills : kind === 'topic' ? definition.topics : definition.steps;
    if (target === 'self' || target === PARENT_TARGET || Object.hasOwn(known ?? {}, name)) continue;
    add(
      'unknown-target',
      `Step "${step}" can return "${target}" from next, which ${kind === null ? 'does not exist in steps' : 'is not registered'}.`,
      {
        step,
        target,
      },
    );
  }
}

/** Prompts that are no functions, where the source was not found. */
function checkText(step: string, { prompt }: StepConfig, insight: SkillInsight, add: Add): void {
  if (insight.asksOf(step) !== null) return;
  const tools = new Set(
    staticPieces(prompt).flatMap((piece) =>
      textsIn(piece).flatMap((text) => toolsNamedIn(text).map(({ tool }) => tool)),
    ),
  );
  for (const tool of tools) add('no-host-tool-names', namesTool(step, tool), { step });
}

export function namesTool(step: string | null, tool: string): string {
  return `${step === null ? 'A shared step' : `Step "${step}"`} names the tool "${tool}" in its prompt.`;
}

/** A step that asks nobody has no answer that somebody would have to write. */
function checkSchema(step: string, { prompt, response }: StepConfig, add: Add): void {
  if (prompt === undefined || response === undefined || inputJsonSchema(response) !== null) return;
  add(
    'no-json-schema',
    `The schema (${response['~standard'].vendor}) of the response of step "${step}" has no JSON Schema.`,
    { step },
  );
}

function checkAsks(step: string, { prompt, response }: StepConfig, insight: SkillInsight, add: Add): void {
  if (response === undefined) return;
  const asks = typeof prompt === 'function' ? (insight.asksOf(step) ?? []) : staticAsks(prompt);
  if (asks.length === 0) return;
  for (const { severity, ask, message } of askMismatches(asks, inputJsonSchema(response)))
    add('primitive-schema-mismatch', `Step "${step}": ${message}.`, { severity, step, ask });
}

function staticAsks(prompt: StepConfig['prompt']): readonly (readonly string[])[] {
  return staticPieces(prompt).flatMap((piece) => {
    if (
      typeof piece === 'string' ||
      piece.kind !== 'act' ||
      piece.primitive.kind !== 'askUser' ||
      piece.primitive.type !== 'structured'
    )
      return [];
    return [piece.primitive.options.map(({ value }) => value)];
  });
}

function staticPieces(prompt: StepConfig['prompt']): readonly PromptPiece[] {
  if (prompt === undefined || typeof prompt === 'function') return [];
  return Array.isArray(prompt) ? prompt : [prompt];
}

/** Keys of primitives that nobody reads as prose are left out. */
function textsIn(piece: PromptPiece): readonly string[] {
  if (typeof piece === 'string') return [piece];
  if (piece.kind !== 'act') return [piece.text];
  const texts = (value: unknown, key: string): readonly string[] => {
    if (typeof value === 'string')
      return ['kind', 'type', 'value', 'status', 'defaultAnswer'].includes(key) ? [] : [value];
    if (typeof value !== 'object' || value === null || key === 'output') return [];
    return Object.entries(value).flatMap(([inner, part]) => texts(part, Array.isArray(value) ? key : inner));
  };
  return texts(piece.primitive, '');
}
