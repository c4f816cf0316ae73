/** Finds mistakes in a definition without running it, all at once. */
import { PARENT_TARGET, RESERVED_STORES, type SkillDefinition, type StepConfig } from './definition.ts';
import { edgesOf } from './facts.ts';
import { findReachable } from './graph.ts';
import { splitTarget } from './moves.ts';
import { findEnvProblems } from './skill-variables.ts';

/** The kind of mistake. A contract, because lint shows it. */
export type DefinitionRule =
  | 'entry-step'
  | 'reserved-name'
  | 'composite-step-name'
  | 'unreadable-step'
  | 'unknown-target'
  | 'step-fields'
  | 'step-numbers'
  | 'parallel-join'
  | 'env-names';

export interface SkillDiagnostic {
  readonly rule: DefinitionRule;
  readonly severity: 'error' | 'warning';
  readonly message: string;
  /** The step with the prefix of its sub-skill. */
  readonly step?: string;
}

const RESERVED_STEPS: ReadonlySet<string> = new Set(['self', PARENT_TARGET, '__terminal__']);
const UNREADABLE_STEPS: ReadonlySet<string> = new Set(['all', 'ran', 'history']);

export function diagnose(definition: SkillDefinition, prefix = ''): readonly SkillDiagnostic[] {
  const inside = Object.entries(definition.subskills ?? {}).flatMap(([name, sub]) =>
    diagnose(sub.definition, `${prefix}${name}/`),
  );
  return [...diagnoseAlone(definition, prefix), ...inside];
}

/** Diagnoses a definition without its sub-skills. */
export function diagnoseAlone(definition: SkillDefinition, prefix = ''): readonly SkillDiagnostic[] {
  const found: SkillDiagnostic[] = [];
  const { steps, entry } = definition;
  if (!Object.hasOwn(steps, entry))
    found.push({
      rule: 'entry-step',
      severity: 'error',
      message: `skill "${definition.name}": ${describeMissingEntry(entry, Object.keys(steps))}`,
    });
  for (const store of Object.keys(definition.stores ?? {})) {
    if (RESERVED_STORES.has(store))
      found.push({
        rule: 'reserved-name',
        severity: 'error',
        message: `skill "${definition.name}": store name "${store}" is reserved`,
      });
  }
  for (const name of Object.keys(definition.subskills ?? {})) {
    if (name === '' || name.includes('/'))
      found.push({
        rule: 'reserved-name',
        severity: 'error',
        message: `Sub-skill name "${name}" is empty or has a "/", which separates it from its steps.`,
      });
  }
  for (const problem of findEnvProblems(definition.env))
    found.push({ rule: 'env-names', severity: 'error', message: `skill "${definition.name}": env ${problem}.` });
  const edges = edgesOf(definition);
  for (const [name, { config }] of Object.entries(steps)) {
    const add: Add = (rule, severity, message) => void found.push({ rule, severity, message, step: prefix + name });
    checkName(definition, name, config, add);
    checkTargets(definition, name, config, add);
    checkShape(name, config, add);
    checkNumbers(name, config, add);
    if (config.parallel === undefined) continue;
    for (const branch of config.parallel.branches) {
      for (const inside of findReachable(edges, [branch], config.parallel.join)) {
        if (isTerminal(steps[inside]?.config) && !leadsAnywhere(definition, [branch], config.parallel.join)) {
          add(
            'parallel-join',
            'error',
            `Step "${name}": its branch "${branch}" can end the skill at "${inside}" without reaching the join "${config.parallel.join}".`,
          );
        }
      }
    }
  }
  return found;
}

export function describeMissingEntry(entry: string, steps: readonly string[]): string {
  return `entry step "${entry}" not found in steps. There are: ${steps.join(', ') || 'none'}.`;
}

type Add = (rule: DefinitionRule, severity: SkillDiagnostic['severity'], message: string) => void;

function checkName(definition: SkillDefinition, name: string, config: StepConfig, add: Add): void {
  if (name === '') add('reserved-name', 'error', 'A step has an empty name.');
  if (RESERVED_STEPS.has(name)) add('reserved-name', 'error', `Step name "${name}" is reserved.`);
  if (name.includes('/'))
    add(
      'composite-step-name',
      'error',
      `Step name "${name}" has a "/", which separates a sub-skill's name from its step's.`,
    );
  if (/^(subskill|topic):/.test(name)) add('reserved-name', 'error', `Step name "${name}" reads like a redirect.`);
  if (UNREADABLE_STEPS.has(name))
    add(
      'unreadable-step',
      'warning',
      `Step "${name}" cannot be read as store.steps.${name}; use store.steps.all("${name}").`,
    );
  if (config.call !== undefined && config.call !== name && Object.hasOwn(definition.subskills ?? {}, name)) {
    add(
      'reserved-name',
      'error',
      `Step "${name}" calls the sub-skill "${config.call}" and is named like the sub-skill "${name}": their steps would have the same addresses.`,
    );
  }
}

function checkTargets(definition: SkillDefinition, name: string, config: StepConfig, add: Add): void {
  const check = (target: string | undefined, where: string): void => {
    if (target === undefined || target === 'self' || Object.hasOwn(definition.steps, target)) return;
    if (target === PARENT_TARGET) {
      return add(
        'unknown-target',
        'error',
        `Step "${name}" has next: "${PARENT_TARGET}" which must be overridden via .extend(). It comes from a module: register the module with a \`next\`.`,
      );
    }
    const [kind, redirect] = splitTarget(target);
    if (kind === 'subskill' && Object.hasOwn(definition.subskills ?? {}, redirect)) return;
    if (kind === 'topic' && Object.hasOwn(definition.topics ?? {}, redirect)) return;
    if (kind !== null)
      return add(
        'unknown-target',
        'error',
        `Step "${name}" has ${where} "${target}", but no such ${kind === 'topic' ? 'topic' : 'sub-skill'} is registered.`,
      );
    add('unknown-target', 'error', `Step "${name}" has ${where} "${target}" which does not exist in steps.`);
  };
  const { next, parallel, human } = config;
  if (typeof next === 'string') check(next, 'next');
  if (Array.isArray(next))
    for (const branch of next as readonly { readonly to: string }[]) check(branch.to, 'a branch to');
  check(config.onMaxVisits, 'onMaxVisits');
  check(human?.onExpiry, 'human.onExpiry');
  for (const branch of parallel?.branches ?? []) {
    if (!Object.hasOwn(definition.steps, branch))
      add('unknown-target', 'error', `Step "${name}" has a parallel branch "${branch}" which does not exist in steps.`);
  }
  if (parallel !== undefined && !Object.hasOwn(definition.steps, parallel.join))
    add('unknown-target', 'error', `Step "${name}" joins at "${parallel.join}" which does not exist in steps.`);
  if (config.call !== undefined && !Object.hasOwn(definition.subskills ?? {}, config.call))
    add('unknown-target', 'error', `Step "${name}" calls the sub-skill "${config.call}", which is not registered.`);
}

function checkShape(name: string, config: StepConfig, add: Add): void {
  const { next, parallel, wait, human, call, prompt, response, action } = config;
  const isAbsent = (next ?? undefined) === undefined;
  const isObject = typeof next === 'object' && !isAbsent && !Array.isArray(next);
  if (isAbsent && parallel === undefined)
    add(
      'step-fields',
      'error',
      `Step "${name}": next is required. Name the step that comes next, or end the skill with next: terminal.`,
    );
  if (isObject && (next as { terminal?: unknown }).terminal !== true)
    add('step-fields', 'error', `Step "${name}": next is an object without \`terminal: true\`.`);
  if (Array.isArray(next) && next.length === 0)
    add('step-fields', 'error', `Step "${name}": next is an empty list of branches.`);
  if (next !== undefined && parallel !== undefined)
    add(
      'step-fields',
      'error',
      `Step "${name}" has both next and parallel. Remove next: the step after the branches is \`parallel.join\`.`,
    );
  if (parallel !== undefined && new Set(parallel.branches).size !== parallel.branches.length)
    add('step-fields', 'error', `Step "${name}" has the same parallel branch twice.`);
  if (parallel !== undefined && parallel.branches.length === 0)
    add('step-fields', 'error', `Step "${name}" has no parallel branches.`);
  if (parallel !== undefined && parallel.branches.includes(parallel.join))
    add('step-fields', 'error', `Step "${name}" starts a branch at its own join.`);
  for (const [key, value] of Object.entries({ wait, call })) {
    if (value === undefined) continue;
    if (prompt !== undefined || response !== undefined)
      add(
        'step-fields',
        'error',
        `Step "${name}" has ${key}, which no answer can reach; move the prompt into a step before it.`,
      );
  }
  if (call !== undefined && (action !== undefined || wait !== undefined || parallel !== undefined))
    add('step-fields', 'error', `Step "${name}" has call, so it cannot have action, wait or parallel.`);
  if (human !== undefined && prompt === undefined)
    add('step-fields', 'error', `Step "${name}" is for a person, but has no prompt for that person.`);
  if (human?.deadlineMs !== undefined && human.onExpiry === undefined)
    add(
      'step-fields',
      'error',
      `Step "${name}" has human.deadlineMs but no human.onExpiry. Set onExpiry to the step that follows when the deadline has passed.`,
    );
  if (action === undefined && (config.retry !== undefined || config.timeoutMs !== undefined))
    add('step-fields', 'warning', `Step "${name}" has retry or timeoutMs but no action.`);
  if (prompt === undefined && response !== undefined && wait === undefined && call === undefined) {
    add(
      'step-fields',
      'warning',
      `Step "${name}" has a response schema but no prompt: its response is {}, which must fit.`,
    );
  }
}

/** 100 years. JavaScript dates end not much later. */
const LONGEST_MS = 3_155_760_000_000;
export const DURATION = `milliseconds, from 0 to ${LONGEST_MS} (100 years)`;

export function isDuration(value: number): boolean {
  return value >= 0 && value <= LONGEST_MS;
}

function checkNumbers(name: string, config: StepConfig, add: Add): void {
  const checkWhole = (value: number | undefined, key: string): void => {
    if (value !== undefined && (!Number.isInteger(value) || value < 1))
      add('step-numbers', 'error', `Step "${name}": ${key} is ${value}; it must be a whole number from 1.`);
  };
  const time = (value: unknown, key: string): void => {
    if (typeof value === 'number' && !isDuration(value))
      add('step-numbers', 'error', `Step "${name}": ${key} is ${value}; it must be ${DURATION}.`);
  };
  checkWhole(config.maxVisits, 'maxVisits');
  checkWhole(config.maxInvalid, 'maxInvalid');
  checkWhole(config.retry?.maxAttempts, 'retry.maxAttempts');
  time(config.retry?.backoffMs, 'retry.backoffMs');
  time(config.retry?.maxBackoffMs, 'retry.maxBackoffMs');
  const { backoffFactor = 1 } = config.retry ?? {};
  if (!Number.isFinite(backoffFactor) || backoffFactor <= 0)
    add(
      'step-numbers',
      'error',
      `Step "${name}": retry.backoffFactor is ${backoffFactor}; it must be a number above 0.`,
    );
  time(config.timeoutMs, 'timeoutMs');
  time(config.wait?.durationMs, 'wait.durationMs');
  time(config.human?.deadlineMs, 'human.deadlineMs');
}

function isTerminal(config: StepConfig | undefined): boolean {
  return typeof config?.next === 'object' && !Array.isArray(config.next);
}

/** Whether a function decides on the way, so that the end of the branch is not known. */
function leadsAnywhere(definition: SkillDefinition, from: readonly string[], join: string): boolean {
  return [...findReachable(edgesOf(definition), from, join)].some(
    (step) => typeof definition.steps[step]?.config.next === 'function',
  );
}
