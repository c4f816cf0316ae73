/** The tools of one server, without the protocol around them. */
import { isRounded } from '../../domain/units/rounded.ts';
import { shorten } from '../../domain/units/quote.ts';

export interface ToolSpec {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly inputSchema: ObjectSchema;
  readonly outputSchema: ObjectSchema;
  readonly readOnly: boolean;
}

/** JSON Schema, as far as the protocol asks for its form. */
export type ObjectSchema = {
  readonly type: 'object';
  readonly properties: Record<string, object>;
  readonly required?: string[];
  readonly additionalProperties?: boolean;
};

export interface ToolReply {
  readonly structured: Readonly<Record<string, unknown>>;
  /** Default: `structured` as JSON. */
  readonly text?: string;
  readonly isError: boolean;
}

export interface Caller {
  /** The name that the client gives itself, once it has sent it. */
  readonly name?: string;
}

export interface ToolSet {
  readonly name: string;
  readonly version: string;
  /** Told to the client when it connects. */
  readonly instructions: string;
  readonly tools: readonly ToolSpec[];
  call(tool: string, args: Readonly<Record<string, unknown>>, caller: Caller): Promise<ToolReply>;
  close(): Promise<void>;
}

/** Returns an error and its remedy. `retry`: the client can correct the call and make it again. */
export function failure(
  error: string,
  message: string,
  remedy: string,
  retry: boolean,
  more: Readonly<Record<string, unknown>> = {},
): ToolReply {
  return { structured: { ...more, status: 'error', error, message, retry, remedy }, isError: true };
}

export type Arguments = Readonly<Record<string, unknown>>;

/** Returns one sentence about arguments that are missing, unknown or of a wrong type; null if all are right. */
export function wrongArguments({ name, inputSchema }: ToolSpec, args: Arguments): string | null {
  const { properties, required = [] } = inputSchema;
  const missing = required.filter((key) => args[key] === undefined).map((key) => `\`${key}\` is missing`);
  const unknown = Object.keys(args)
    .filter((key) => !Object.hasOwn(properties, key))
    .map((key) => `\`${shorten(key)}\` is not an argument of ${name}`);
  const wrong = Object.entries(args).flatMap(([key, value]) => {
    const { items, type } = (Object.hasOwn(properties, key) ? properties[key] : {}) as {
      readonly type?: unknown;
      readonly items?: { readonly type?: unknown };
    };
    if (typeof type !== 'string' || value === undefined) return [];
    if (!isOfType(value, type)) return [`\`${key}\` must be of type ${type}, not ${typeName(value)}`];
    const wrongItem =
      Array.isArray(value) && typeof items?.type === 'string' && value.some((item) => typeName(item) !== items.type);
    return wrongItem ? [`\`${key}\` must hold values of type ${String(items.type)} only`] : [];
  });
  const problems = [...missing, ...unknown, ...wrong];
  return problems.length === 0 ? null : `${problems.join('; ')}.`;
}

/**
 * Returns the first number of the arguments that JSON may have rounded, with its place; null: no number was. Digits of
 * fractions are lost earlier, when the message is parsed.
 */
export function inexactNumber(args: unknown, at = ''): string | null {
  if (typeof args === 'number')
    return isRounded(args)
      ? `\`${at}\` is ${args}, a number beyond ±${Number.MAX_SAFE_INTEGER}, which has no exact value`
      : null;
  if (typeof args !== 'object' || args === null) return null;
  for (const [key, value] of Object.entries(args)) {
    const found = inexactNumber(value, Array.isArray(args) ? `${at}[${key}]` : at === '' ? key : `${at}.${key}`);
    if (found !== null) return found;
  }
  return null;
}

function isOfType(value: unknown, type: string): boolean {
  return type === 'integer' ? Number.isInteger(value) : typeName(value) === type;
}

function typeName(value: unknown): string {
  return value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value;
}
