/** Whether the options of a question and the values that the answer's schema takes are the same. */

export interface AskMismatch {
  readonly severity: 'error' | 'warning';
  /** The index of the question among the given ones. */
  readonly ask: number;
  readonly message: string;
}

/** Values that a property takes; '' is the answer itself. */
interface Choice {
  readonly property: string;
  readonly values: readonly string[];
}

/**
 * A question belongs to the property that takes most of its options; other properties have nothing to do with it.
 * @param asks  values of the options of each question; null where not all are known
 * @param schema  JSON Schema of the answer
 */
export function askMismatches(
  asks: readonly (readonly string[] | null)[],
  schema: Readonly<Record<string, unknown>> | null,
): readonly AskMismatch[] {
  const choices = schema === null ? [] : choicesIn(schema);
  const found: AskMismatch[] = [];
  const offered = new Map<Choice, { readonly values: Set<string>; readonly ask: number }>();
  for (const [ask, values] of asks.entries()) {
    const choice = values === null ? null : chooseProperty(values, choices, schema);
    if (values === null || choice === null) continue;
    const refused = values.filter((value) => !choice.values.includes(value));
    if (refused.length > 0)
      found.push({
        severity: 'error',
        ask,
        message: `option ${quoteValues(refused)} of askUser is refused by ${describeProperty(choice)}, which takes ${quoteValues(choice.values)}`,
      });
    const known = offered.get(choice) ?? { values: new Set(), ask };
    offered.set(choice, known);
    for (const value of values) known.values.add(value);
  }
  // A question whose options are made at run time may offer whatever is missing.
  if (asks.includes(null)) return found;
  for (const [choice, { values, ask }] of offered) {
    const extra = choice.values.filter((value) => !values.has(value));
    if (extra.length > 0)
      found.push({
        severity: 'warning',
        ask,
        message: `${describeProperty(choice)} takes ${quoteValues(extra)}, which no option of askUser offers`,
      });
  }
  return found;
}

function chooseProperty(
  values: readonly string[],
  choices: readonly Choice[],
  schema: Readonly<Record<string, unknown>> | null,
): Choice | null {
  const countShared = (choice: Choice): number => values.filter((value) => choice.values.includes(value)).length;
  const best = choices.toSorted((a, b) => countShared(b) - countShared(a) || a.values.length - b.values.length)[0];
  if (best === undefined) return null;
  // Nothing in common: it is this property's only where the answer has no other.
  const isOnly =
    choices.length === 1 && (best.property === '' || Object.keys(record(schema?.['properties'])).length === 1);
  return countShared(best) > 0 || isOnly ? best : null;
}

function choicesIn(schema: Readonly<Record<string, unknown>>): readonly Choice[] {
  const whole = valuesOf(schema);
  const parts = Object.entries(record(schema['properties'])).map(([property, part]) => ({
    property,
    values: valuesOf(record(part)),
  }));
  return [{ property: '', values: whole }, ...parts].filter((choice): choice is Choice => choice.values !== null);
}

/** Null: it takes other values too. */
function valuesOf(schema: Readonly<Record<string, unknown>>): readonly string[] | null {
  const {
    enum: several,
    const: one,
    anyOf,
    items,
  } = schema as { enum?: unknown; const?: unknown; anyOf?: unknown; items?: unknown };
  if (Array.isArray(several)) return several.every((value) => typeof value === 'string') ? several : null;
  if (one !== undefined) return typeof one === 'string' ? [one] : null;
  if (Array.isArray(anyOf)) {
    const each = anyOf.map((part) => valuesOf(record(part)));
    return each.every((values) => values !== null) ? each.flat() : null;
  }
  return items === undefined ? null : valuesOf(record(items));
}

function record(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

function describeProperty({ property }: Choice): string {
  return property === '' ? 'the response' : `response.${property}`;
}

function quoteValues(values: readonly string[]): string {
  return values.map((value) => `"${value}"`).join(', ');
}
