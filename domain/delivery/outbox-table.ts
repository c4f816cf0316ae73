/** The name of a table in the database of an application. It is quoted in every statement, so its case counts. */

export interface OutboxTable {
  readonly schema: string;
  readonly name: string;
}

export const DEFAULT_OUTBOX_SCHEMA = 'public';
/** PostgreSQL cuts a longer name. */
const MOST_NAME_BYTES = 63;
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** @returns null for a text that is neither `NAME` nor `SCHEMA.NAME` */
export function parseOutboxTable(text: string): OutboxTable | null {
  const parts = text.split('.');
  if (parts.length > 2 || !parts.every((part) => NAME.test(part) && part.length <= MOST_NAME_BYTES)) return null;
  const [first = '', second] = parts;
  return second === undefined ? { schema: DEFAULT_OUTBOX_SCHEMA, name: first } : { schema: first, name: second };
}

/** Returns the name as a statement has it: `"public"."orders_outbox"`. */
export function quoteOutboxTable({ schema, name }: OutboxTable): string {
  return `"${schema}"."${name}"`;
}
