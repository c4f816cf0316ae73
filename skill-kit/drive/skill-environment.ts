/**
 * The environment of a program that runs a skill's code in its own process: base variables while the code is loaded, the declared
 * ones too as soon as it runs. Not a sandbox: code that means to finds the rest. It is so that a skill that works over one
 * transport works over all of them, and names what it needs.
 */
import { isPlain } from '../../domain/step-machine/deep-merge.ts';
import type { SkillDefinition } from '../../domain/step-machine/definition.ts';
import {
  listDeclaredVariables,
  isBaseVariable,
  describeMissing,
  missingOf,
  valuesOf,
} from '../../domain/step-machine/skill-variables.ts';
import { createRedactor } from '../../domain/security/redactor.ts';
import { grantVariables, originalVariables, withholdVariables } from '../../setup/environment.ts';

/** Takes the values of variables out of texts, and out of all texts in a value. */
export interface Redaction {
  text(text: string): string;
  value<T>(value: T): T;
}

const NONE: Redaction = { text: (text) => text, value: (value) => value };
let current: Redaction = NONE;

/** Before a skill's code is loaded. */
export function withholdEnvironment(): void {
  withholdVariables(isBaseVariable);
}

/**
 * Before a skill's code runs: from now on it sees what it declares, and nothing of that leaves it in prompts, results or messages.
 * @throws {Error} naming what is not set
 */
export function grantDeclared(definition: SkillDefinition): void {
  withholdEnvironment();
  const names = listDeclaredVariables(definition);
  const values = valuesOf(names, originalVariables());
  const missing = missingOf(names, values);
  if (missing.length > 0)
    throw new Error(
      `${describeMissing(definition.name, missing)}. Set ${missing.length === 1 ? 'it' : 'them'} where this is started.`,
    );
  grantVariables(values);
  current = redactionOf(values);
  if (current !== NONE) for (const stream of [process.stdout, process.stderr]) redactPrinted(stream, current);
}

/** Redacts text that the skill's code prints itself; a transport's answers do not pass through here. */
function redactPrinted(stream: NodeJS.WriteStream, { text }: Redaction): void {
  const write = stream.write.bind(stream) as (chunk: unknown, ...rest: readonly unknown[]) => boolean;
  stream.write = ((chunk: unknown, ...rest: readonly unknown[]) =>
    write(typeof chunk === 'string' ? text(chunk) : chunk, ...rest)) as typeof stream.write;
}

/** Those of this process that every program needs. */
export function baseVariables(): Readonly<Record<string, string>> {
  const all = originalVariables();
  return valuesOf(Object.keys(all).filter(isBaseVariable), all);
}

/** That of this process. */
export function processRedaction(): Redaction {
  return current;
}

export function redactionOf(values: Readonly<Record<string, string>>): Redaction {
  // Variables that every program sees are not secret, and their values occur in ordinary text.
  const secrets = Object.entries(values).flatMap(([name, value]) => (isBaseVariable(name) ? [] : [{ name, value }]));
  if (secrets.length === 0) return NONE;
  const redactor = createRedactor(secrets);
  const text = (from: string): string => redactor.text(from);
  return { text, value: (value) => redactValue(value, text) as typeof value };
}

/**
 * Returns the same value if it has nothing to redact. Objects that JSON cannot express stay unchanged, because they
 * never leave the process.
 */
function redactValue(value: unknown, text: (from: string) => string): unknown {
  if (typeof value === 'string') return text(value);
  if (Array.isArray(value)) {
    const items = value.map((item: unknown) => redactValue(item, text));
    return items.some((item, index) => item !== value[index]) ? items : value;
  }
  if (typeof value !== 'object' || value === null || !isPlain(value)) return value;
  const entries = Object.entries(value).map(([key, item]) => [text(key), redactValue(item, text)] as const);
  const isSame = Object.entries(value).every(
    ([key, item], index) => entries[index]![0] === key && entries[index]![1] === item,
  );
  return isSame ? value : Object.fromEntries(entries);
}
