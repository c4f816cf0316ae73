/** What is wrong with a definition, found when it is built: every error names the place and the remedy. */
import type { ActionUse, SkillDefinition, StepConfig, StepDefinition } from '../../domain/step-machine/definition.ts';
import { diagnose } from '../../domain/step-machine/diagnose.ts';
import { inputJsonSchema, outputJsonSchema } from './schema.ts';

/** @throws {Error} with all that the definition says wrong */
export function checkSkillDefinition(definition: SkillDefinition): void {
  const { name, entry, steps } = definition;
  if (!name) throw new Error('skill: name is required');
  checkSteps(`skill "${name}"`, entry, steps);
  const mistakes = diagnose(definition).filter(({ severity }) => severity === 'error');
  if (mistakes.length === 0) return;
  const lines = mistakes.map(({ message }) => message);
  throw new Error(
    lines.length === 1 ? `skill "${name}": ${lines[0]}` : `skill "${name}" has ${lines.length} mistakes:\n${lines.map((line) => `  ${line}`).join('\n')}`,
  );
}

/** @throws {Error} */
export function checkSteps(where: string, entry: string, steps: Readonly<Record<string, StepDefinition>>): void {
  if (!entry) throw new Error(`${where}: entry is required. Give the name of the first step.`);
  const names = Object.keys(steps);
  if (names.length === 0) throw new Error(`${where}: at least one step is required. Add one with .step(name, { ... }).`);
  if (!Object.hasOwn(steps, entry)) throw new Error(`${where}: entry step "${entry}" not found in steps. There are: ${names.join(', ')}.`);
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
