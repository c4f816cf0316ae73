/** What is wrong with a definition, found when it is built: every error names the place and the remedy. */
import type { ActionUse, SkillDefinition, StepConfig, StepDefinition } from '../../domain/step-machine/definition.ts';
import { diagnose, type SkillDiagnostic } from '../../domain/step-machine/diagnose.ts';
import { inputJsonSchema, outputJsonSchema } from './schema.ts';

/** All that a definition says wrong. Lint knows it by its name: a skill that was bundled has a class of its own. */
export class SkillDefinitionError extends Error {
  readonly skill: string;
  readonly mistakes: readonly SkillDiagnostic[];

  constructor(skill: string, mistakes: readonly SkillDiagnostic[]) {
    const lines = mistakes.map(({ message }) => message);
    super(
      lines.length === 1
        ? `skill "${skill}": ${lines[0]}`
        : `skill "${skill}" has ${lines.length} mistakes:\n${lines.map((line) => `  ${line}`).join('\n')}`,
    );
    this.name = 'SkillDefinitionError';
    this.skill = skill;
    this.mistakes = mistakes;
  }
}

/** @throws {SkillDefinitionError} */
export function checkSkillDefinition(definition: SkillDefinition): void {
  const { name, entry, steps } = definition;
  if (!name) throw new Error('skill: name is required');
  if (entry && isMissing(entry, steps))
    throw new SkillDefinitionError(name, [
      { rule: 'entry-step', severity: 'error', message: missingEntry(entry, steps) },
    ]);
  checkSteps(`skill "${name}"`, entry, steps);
  const mistakes = diagnose(definition).filter(({ severity }) => severity === 'error');
  if (mistakes.length > 0) throw new SkillDefinitionError(name, mistakes);
}

/** @throws {Error} */
export function checkSteps(where: string, entry: string, steps: Readonly<Record<string, StepDefinition>>): void {
  if (!entry) throw new Error(`${where}: entry is required. Give the name of the first step.`);
  if (Object.keys(steps).length === 0)
    throw new Error(`${where}: at least one step is required. Add one with .step(name, { ... }).`);
  if (isMissing(entry, steps)) throw new Error(`${where}: ${missingEntry(entry, steps)}`);
}

function isMissing(entry: string, steps: Readonly<Record<string, StepDefinition>>): boolean {
  return Object.keys(steps).length > 0 && !Object.hasOwn(steps, entry);
}

function missingEntry(entry: string, steps: Readonly<Record<string, StepDefinition>>): string {
  return `entry step "${entry}" not found in steps. There are: ${Object.keys(steps).join(', ')}.`;
}

/**
 * A reusable action without `mapInput` is given the response as it is, which then has to have all that the action needs.
 * @throws {Error} when it certainly has not; schemas that cannot be expressed are not compared
 */
export function checkActionInput(step: string, { action, response }: StepConfig): void {
  if (!isActionUse(action) || action.mapInput !== undefined) return;
  const required = inputJsonSchema(action.run.input)?.['required'];
  const given = response === undefined ? [] : propertiesOf(outputJsonSchema(response));
  if (!Array.isArray(required) || given === null) return;
  const missing = (required as string[]).filter((key) => !given.includes(key));
  if (missing.length === 0) return;
  throw new Error(
    `Step "${step}" uses action "${action.run.name}" without an input mapper, but the step output is missing properties required by the action input: [${missing.join(', ')}]. Add an action.mapInput mapper to transform the step output.`,
  );
}

/** Null when the schema does not say all that it lets through. */
function propertiesOf(schema: Record<string, unknown> | null): readonly string[] | null {
  const properties = schema?.['properties'];
  return typeof properties === 'object' && properties !== null ? Object.keys(properties) : null;
}

function isActionUse(action: StepConfig['action']): action is ActionUse {
  return typeof action === 'object' && action !== null;
}
