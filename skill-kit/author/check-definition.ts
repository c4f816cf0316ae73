/** What is wrong with a definition, found when it is built: every error names the place and the remedy. */
import type { ActionUse, SkillDefinition, StepConfig, StepDefinition } from '../../domain/step-machine/definition.ts';
import { diagnose, describeMissingEntry, type SkillDiagnostic } from '../../domain/step-machine/diagnose.ts';
import { refuse, StepDefinitionError } from './refuse.ts';
import { inputJsonSchema, outputJsonSchema } from './schema.ts';

/** All that a definition says wrong. Lint knows it by its name: a skill that was bundled has a class of its own. */
export class SkillDefinitionError extends Error {
  readonly skill: string;
  readonly mistakes: readonly SkillDiagnostic[];

  constructor(skill: string, mistakes: readonly SkillDiagnostic[]) {
    const where = `skill "${skill}": `;
    const lines = mistakes.map(({ message }) => (message.startsWith(where) ? message.slice(where.length) : message));
    super(
      lines.length === 1
        ? `${where}${lines[0]}`
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
  if (!name) refuse(new Error('skill: name is required'), definition);
  const mistakes = diagnose(definition).filter(({ severity }) => severity === 'error');
  if (mistakes.length === 0) return;
  // Without a first step there is no graph to check, so this is the only mistake to report.
  if (!entry || Object.keys(steps).length === 0) checkSteps(`skill "${name}"`, entry, steps);
  refuse(new SkillDefinitionError(name, mistakes), definition);
}

/** @throws {Error} */
export function checkSteps(where: string, entry: string, steps: Readonly<Record<string, StepDefinition>>): void {
  if (!entry) refuse(new Error(`${where}: entry is required. Give the name of the first step.`));
  else if (Object.keys(steps).length === 0)
    refuse(new Error(`${where}: at least one step is required. Add one with .step(name, { ... }).`));
  else if (!Object.hasOwn(steps, entry))
    refuse(new Error(`${where}: ${describeMissingEntry(entry, Object.keys(steps))}`));
}

/**
 * A reusable action without `mapInput` is given the response as it is, which then has to have all that the action needs.
 * @throws {StepDefinitionError} when it certainly has not; schemas that cannot be expressed are not compared
 */
export function checkActionInput(step: string, { action, response }: StepConfig): void {
  if (!isActionUse(action) || action.mapInput !== undefined) return;
  const { input } = action.run as Partial<ActionUse['run']>;
  // Only lint comes here with an action that lacks it, of which `action` has told.
  if (input === undefined) return;
  const required = inputJsonSchema(input)?.['required'];
  const given = response === undefined ? [] : propertiesOf(outputJsonSchema(response));
  if (!Array.isArray(required) || given === null) return;
  const missing = (required as string[]).filter((key) => !given.includes(key));
  if (missing.length === 0) return;
  refuse(
    new StepDefinitionError(
      step,
      `Step "${step}" uses action "${action.run.name}" without an input mapper, but the step output is missing properties required by the action input: [${missing.join(', ')}]. Add an action.mapInput mapper to transform the step output.`,
    ),
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
