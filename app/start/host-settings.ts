/**
 * Variables of the environment that override settings of a spec. Commands read them before they compile the spec, and
 * report them afterwards.
 */
import type { AppliedSettings } from '../../domain/language/compile/apply-settings.ts';
import {
  type HostSettings,
  readHostSettings,
  SETTING_VARIABLES,
} from '../../domain/language/compile/stage/host-settings.ts';
import { AppError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import { createMapping } from '../../domain/units/mapping.ts';

const { ollamaBaseUrl: OLLAMA, ...LLM_VARIABLES } = SETTING_VARIABLES;

/** @returns null: none is set. @throws AppError `cli/variable-invalid` */
export function readSettings({ env }: Pick<Machine, 'env'>): HostSettings | null {
  const read = readHostSettings(env.variables);
  if ('settings' in read) return read.settings;
  const { message, remedy } = read.problem;
  throw new AppError('usage', 'cli/variable-invalid', message, remedy);
}

export function describeSettings(
  settings: HostSettings,
  { llm, hasOwnLlm, leftOut, ollama }: AppliedSettings,
): readonly string[] {
  const set = setOf(settings);
  const shown = Object.keys(LLM_VARIABLES).flatMap((key) => {
    const name = LLM_VARIABLES[key as keyof typeof LLM_VARIABLES];
    return set[name] === undefined ? [] : [`${name}=${set[name]}`];
  });
  const lines: string[] = [];
  if (shown.length > 0 && llm) {
    const keys = [...leftOut].map((key) => `\`${key}\``).join(', ');
    const without = keys === '' ? '' : `, and without its ${keys}`;
    const kept = hasOwnLlm ? '; stages with an `llm` of their own keep it' : '';
    lines.push(`${shown.join(' ')}: instead of the spec's \`llm\`${without}${kept}`);
  } else if (shown.length > 0 && hasOwnLlm)
    lines.push(`${shown.join(' ')}: without effect, since each agent has an \`llm\` of its own`);
  if (ollama) lines.push(`${OLLAMA}=${set[OLLAMA]}: instead of its value in the spec`);
  return lines;
}

/** Returns the settings by the names of their variables. */
function setOf(settings: HostSettings): Readonly<Record<string, string>> {
  return createMapping(
    Object.entries(SETTING_VARIABLES).flatMap(([key, name]) => {
      const value = settings[key as keyof HostSettings];
      return value === null ? [] : [[name, value]];
    }),
  );
}

/** Null: no variable overrides a setting of the spec. */
export function toSettingsJson(
  settings: HostSettings | null,
  { llm, hasOwnLlm, leftOut, ollama }: AppliedSettings,
): object | null {
  if (settings === null || !(llm || ollama)) return null;
  const set = Object.entries(setOf(settings)).filter(([name]) => (name === OLLAMA ? ollama : llm));
  return { variables: createMapping(set), leftOut: [...leftOut], hasOwnLlm };
}
