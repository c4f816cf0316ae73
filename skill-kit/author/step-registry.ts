/** The steps that a builder has been given: skills and modules collect them alike. */
import type { StepConfig, StepDefinition } from '../../domain/step-machine/definition.ts';
import { checkActionInput } from './check-definition.ts';
import { defineStep, eraseTypes } from './step.ts';

export class StepRegistry {
  /** Without a prototype, so that a step may have any name. */
  readonly #steps = Object.create(null) as Record<string, StepDefinition>;

  /**
   * A step of the same name is replaced.
   * @param step  what an author writes, or what `step()` made of it
   * @throws {Error} when `next` is missing, or a reusable action without `mapInput` needs what the response has not
   */
  add(name: string, step: object): void {
    const definition = isDefinition(step) ? step : defineStep(eraseTypes(step));
    checkActionInput(name, definition.config);
    this.#steps[name] = definition;
  }

  /** Adds all steps of another one, their configs changed. @throws {Error} as `add` */
  addAll(steps: Readonly<Record<string, StepDefinition>>, change: (config: StepConfig) => StepConfig): void {
    for (const [name, { config }] of Object.entries(steps)) this.add(name, change(config));
  }

  /** The steps so far, as they stay. */
  frozen(): Readonly<Record<string, StepDefinition>> {
    return Object.freeze({ ...this.#steps });
  }
}

function isDefinition(step: object): step is StepDefinition {
  return 'kind' in step && step.kind === 'step';
}
