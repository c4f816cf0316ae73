/**
 * The part of Standard Schema v1 that step machines use, as a structural type: every value of this shape is a schema
 * (zod 4, ArkType, Valibot, ...), and nothing here imports a schema library.
 */
export interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

export interface JsonSchemaOptions {
  readonly target: string;
  readonly libraryOptions?: Readonly<Record<string, unknown>> | undefined;
}

/** Makes JSON Schema from a schema: for its input, or for its output. */
export interface JsonSchemaSource {
  input(options: JsonSchemaOptions): Record<string, unknown>;
  output(options: JsonSchemaOptions): Record<string, unknown>;
}

export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    validate(
      value: unknown,
      options?: { readonly libraryOptions?: Readonly<Record<string, unknown>> | undefined },
    ): SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
    readonly jsonSchema?: JsonSchemaSource | undefined;
  };
}

export type AnySchema = StandardSchema<unknown, unknown>;
/** The input that a schema accepts. */
export type InferInput<S extends AnySchema> = NonNullable<S['~standard']['types']>['input'];
/** The output of a schema. */
export type InferOutput<S extends AnySchema> = NonNullable<S['~standard']['types']>['output'];

/** Writes issues in one line: `a.b: message; c: message`. An issue with an empty path has no colon. */
export function describeIssues(issues: readonly SchemaIssue[]): string {
  return issues
    .map(({ path, message }) =>
      path === undefined || path.length === 0 ? message : `${path.map(keyOf).join('.')}: ${message}`,
    )
    .join('; ');
}

function keyOf(segment: PropertyKey | { readonly key: PropertyKey }): string {
  return String(typeof segment === 'object' ? segment.key : segment);
}
