/** Compiles variables of a command: written values, and values that the host lends. */
import type { EnvPlan } from '../../../plan/plan.ts';
import { VARIABLE_LIMITS } from '../../grammar/values.ts';
import type { Filler } from '../../grammar/placeholders.ts';
import type { Problems } from '../../text/diagnostics.ts';
import type { EnvSpec, Spec, StageSpec } from '../../read/spec.ts';
import type { Located } from '../../text/tree.ts';
import { quote } from '../../../units/quote.ts';

/**
 * Joins layers of variables: later values override earlier ones, and the first place stays. An empty value uses the
 * host's variable if it is set; a secret requires it.
 */
export function compileEnv(
  layers: readonly (readonly EnvSpec[])[],
  secrets: readonly string[],
  fill: Filler,
): readonly EnvPlan[] {
  const env = new Map<string, EnvPlan['value']>();
  for (const { name, value } of layers.flat()) {
    env.set(
      name,
      value.value === ''
        ? { kind: 'from-host', fromHost: name, ifUnset: 'empty' }
        : { kind: 'literal', text: fill(value) },
    );
  }
  for (const name of secrets) env.set(name, { kind: 'from-host', fromHost: name });
  return [...env].map(([name, value]) => ({ name, value }));
}

/** Returns the names of the stage's secrets, each once. */
export function compileSecrets({ env, secrets }: StageSpec, what: string, problems: Problems): readonly string[] {
  refuseMore(secrets, `\`secrets\` of ${what}`, problems);
  const names = new Set(secrets.map(({ value }) => value));
  for (const { name, at, value } of env)
    if (value.value !== '' && names.has(name))
      problems.error(
        'spec/bad-value',
        at,
        `${what} gives the variable ${name} a value, and names it in \`secrets\``,
        'keep one of them',
      );
  return [...names];
}

/** Reports secrets that the spec's list does not contain, and listed secrets that no stage uses. */
export function reportSecrets({ secrets: listed, stages }: Spec, problems: Problems): void {
  if (listed === null) return;
  refuseMore(listed, '`secrets`', problems);
  const names = new Set(listed.map(({ value }) => value));
  const named = stages.flatMap(({ secrets }) => secrets);
  for (const { value, at } of named)
    if (!names.has(value))
      problems.error(
        'spec/undeclared-secret',
        at,
        `the spec does not list the secret ${value}${problems.suggest(value, names)}`,
        `add ${quote(value)} to \`secrets\` at the top level of the spec, or remove that list`,
      );
  const used = new Set(named.map(({ value }) => value));
  for (const { value, at } of listed)
    if (!used.has(value))
      problems.warning(
        'spec/unused-secret',
        at,
        `no stage names the secret ${value}`,
        `write \`secrets: [${value}]\` at the stage that needs it, or remove it here`,
      );
}

/** Keys of model providers and of GitHub. */
const KEY = /^(?:sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})$/;

/**
 * Warns of keys as written values: they enter the plan and history, and are not redacted. The message does not repeat
 * the value.
 */
export function warnOfWrittenKeys({ sandbox, defaults, stages }: Spec, problems: Problems): void {
  const layers = [sandbox?.env, defaults?.env, ...stages.flatMap((stage) => [stage.env, stage.sandbox?.env])];
  for (const { name, value } of layers.flatMap((layer) => layer ?? []))
    if (KEY.test(value.value))
      problems.warning(
        'spec/bad-value',
        value.at,
        `the value of the variable ${name} looks like a key; it would be in the plan and in the history of each run, without redaction`,
        `write \`${name}: ""\`, which takes the value from the host's variable`,
      );
}

function refuseMore(secrets: readonly Located<string>[], what: string, problems: Problems): void {
  const over = secrets[VARIABLE_LIMITS.count];
  if (over !== undefined)
    problems.error(
      'spec/too-large',
      over.at,
      `${what} has ${secrets.length} items; at most ${VARIABLE_LIMITS.count} are allowed`,
      'combine several values into one variable, such as a JSON text',
    );
}
