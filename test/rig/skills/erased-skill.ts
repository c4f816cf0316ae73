/** Skills that are written without builders: the engine gets their definitions, without the SDK's checks. */
import type { SkillDefinition, StepConfig, StepDefinition } from '../../../domain/step-machine/definition.ts';

export const TERMINAL = { terminal: true } as const;

/** The first step is the entry. */
export function skillOf(
  steps: Readonly<Record<string, StepConfig>>,
  more: Partial<SkillDefinition> = {},
): SkillDefinition {
  return {
    kind: 'skill',
    name: 'sample',
    version: '1.0.0',
    resolveVersion: false,
    entry: Object.keys(steps)[0]!,
    steps: Object.fromEntries(Object.entries(steps).map(([name, config]) => [name, define(config)])),
    ...more,
  };
}

export function define(config: StepConfig): StepDefinition {
  return { kind: 'step', config, extend: (overrides) => define({ ...config, ...overrides }) };
}
