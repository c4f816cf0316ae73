/** Builders of steps and actions that several skills can use. */
import type { StepConfig as ErasedStepConfig, StoreAccessor } from '../../domain/step-machine/definition.ts';
import type { AnySchema } from '../../domain/step-machine/schema.ts';
import { refuse } from './refuse.ts';
import type { AnyTarget } from './store-types.ts';
import type { ActionConfig, ActionDefinition, StepDefinition, StepOptions } from './author-types.ts';

/**
 * A step for `.extend()` and `.step()`. It knows neither the params nor the store of the skills that use it.
 * @throws {Error} without `next` (or `parallel`)
 */
export function step<
  TResponse extends AnySchema = never,
  TInput = never,
  TAction = never,
  TSave = never,
  const TNext extends AnyTarget = never,
  const TOther extends string = never,
  const TExpiry extends string = never,
  const TBranch extends string = never,
  const TJoin extends string = never,
>(
  config: StepOptions<
    unknown,
    StoreAccessor,
    Record<string, unknown>,
    TResponse,
    TInput,
    TAction,
    TSave,
    TNext,
    TOther,
    TExpiry,
    TBranch,
    TJoin
  >,
): StepDefinition<TResponse, TAction, TSave, TNext> {
  checkNext(eraseTypes(config));
  return defineStep(eraseTypes(config));
}

/** Drops the compile-time types of a step; the engine checks what callbacks return. */
export function eraseTypes(config: object): ErasedStepConfig {
  return config as ErasedStepConfig;
}

function checkNext({ next, parallel }: ErasedStepConfig): void {
  if (next || parallel !== undefined) return;
  refuse(new Error('step: next is required. Name the step that comes next, or end the skill with next: terminal.'));
}

/**
 * Makes a step without types and without a check of `next`. Builders call this and report a missing `next` with the
 * step's name.
 */
export function defineStep(config: ErasedStepConfig): StepDefinition<never, never, never, never> {
  return Object.freeze({
    kind: 'step',
    config: Object.freeze({ ...config }),
    extend: (overrides: Partial<ErasedStepConfig>) => defineStep({ ...config, ...overrides }),
  });
}

/**
 * Work with a name and schemas, done when a step was answered. Its input is checked before, its output after.
 * @throws {Error} when a part is missing
 */
export function action<TInput extends AnySchema, TOutput extends AnySchema>(
  config: ActionConfig<TInput, TOutput>,
): ActionDefinition<TInput, TOutput> {
  const where = config.name ? `action "${config.name}"` : 'action';
  if (!config.name) refuse(new Error('action: name is required'));
  if (!config.input) refuse(new Error(`${where}: input schema is required`));
  if (!config.output) refuse(new Error(`${where}: output schema is required`));
  if (typeof config.run !== 'function') refuse(new Error(`${where}: run function is required`));
  return Object.freeze({ kind: 'action', ...config });
}
