/** Writes the types of `voidbox/client` from the document of the HTTP API. */

interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | Schema;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly description?: string;
  readonly [other: string]: unknown;
}

export interface ApiDocument {
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
  readonly paths: Readonly<Record<string, Readonly<Record<string, { readonly parameters?: readonly Parameter[] }>>>>;
}

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly schema: Schema;
}

export interface WantedTypes {
  /** The names of schemas. Schemas that these name follow them. */
  readonly schemas: readonly string[];
  /** For each type of a query, the path of its route, which is a GET. */
  readonly queries: Readonly<Record<string, string>>;
}

/** Keywords of values that a type cannot have. */
const CHECKS = new Set([
  'default',
  'exclusiveMinimum',
  'format',
  'maximum',
  'maxItems',
  'maxLength',
  'minItems',
  'minLength',
  'minimum',
  'pattern',
]);
const READ = new Set([
  '$ref',
  'type',
  'enum',
  'properties',
  'required',
  'additionalProperties',
  'items',
  'anyOf',
  'description',
]);
const REF = '#/components/schemas/';

/** @throws Error for a schema that it cannot write as a type */
export function writeClientTypes(document: ApiDocument, { schemas, queries }: WantedTypes): string {
  const texts = listNeeded(document, schemas).map((name) => writeDeclaration(name, getSchema(document, name)));
  const ofQueries = Object.entries(queries).map(([name, path]) => writeDeclaration(name, readQuery(document, path)));
  return [
    '/** The shapes of requests and answers. Generated from the OpenAPI document: `UPDATE=1 npx vitest run server/client-types`. */\n',
    ...texts,
    ...ofQueries,
  ].join('\n');
}

function getSchema({ components }: ApiDocument, name: string): Schema {
  const schema = components.schemas[name];
  if (schema === undefined) throw new Error(`the document has no schema ${name}`);
  return schema;
}

function readQuery({ paths }: ApiDocument, path: string): Schema {
  const parameters = (paths[path]?.['get']?.parameters ?? []).filter((each) => each.in === 'query');
  if (parameters.length === 0) throw new Error(`GET ${path} has no query`);
  return {
    type: 'object',
    properties: Object.fromEntries(parameters.map(({ name, schema }) => [name, schema])),
    required: parameters.filter(({ required }) => required === true).map(({ name }) => name),
  };
}

/** Returns the names and what they need, in the order of the alphabet. */
function listNeeded(document: ApiDocument, names: readonly string[]): readonly string[] {
  const found = new Set(names);
  for (const name of found)
    for (const [, needed] of JSON.stringify(getSchema(document, name)).matchAll(/"#\/components\/schemas\/(\w+)"/g))
      found.add(needed!);
  return [...found].toSorted();
}

function writeDeclaration(name: string, schema: Schema): string {
  const text = writeType(schema, '');
  const declaration = text.startsWith('{') ? `interface ${name} ${text}` : `type ${name} = ${text};`;
  return `${writeComment(schema.description, '')}export ${declaration}\n`;
}

function writeType(schema: Schema, indent: string): string {
  const unknown = Object.keys(schema).find((key) => !READ.has(key) && !CHECKS.has(key));
  if (unknown !== undefined) throw new Error(`a schema has \`${unknown}\`, for which there is no type`);
  if (schema.$ref !== undefined) return schema.$ref.slice(REF.length);
  if (schema.anyOf !== undefined) return schema.anyOf.map((each) => writeType(each, indent)).join(' | ');
  if (schema.enum !== undefined) return schema.enum.map((value) => writeText(value)).join(' | ');
  const types = [schema.type ?? []].flat();
  if (types.length === 0) return 'unknown';
  return types.map((type) => writeSimpleType(type, schema, indent)).join(' | ');
}

function writeSimpleType(type: string, schema: Schema, indent: string): string {
  switch (type) {
    case 'string':
    case 'number':
    case 'boolean':
    case 'null':
      return type;
    case 'integer':
      return 'number';
    case 'array': {
      const item = writeType(schema.items ?? {}, indent);
      return `readonly ${/^(?:\w+|\{[^]*\})$/.test(item) ? item : `(${item})`}[]`;
    }
    case 'object':
      return writeObject(schema, indent);
    default:
      throw new Error(`a schema has the type ${type}`);
  }
}

function writeObject({ properties, required = [], additionalProperties, description }: Schema, indent: string): string {
  if (properties === undefined) {
    const value = typeof additionalProperties === 'object' ? writeType(additionalProperties, indent) : 'unknown';
    return `Readonly<Record<string, ${value}>>`;
  }
  const inner = `${indent}  `;
  const fields = Object.entries(properties).map(([name, schema]) => {
    const isRequired = required.includes(name);
    const text = writeType(schema, inner);
    const comment = schema.$ref === undefined ? writeComment(schema.description, inner) : '';
    return `${comment}${inner}readonly ${name}${isRequired ? `: ${text}` : `?: ${text}${text.includes('\n') || text === 'unknown' ? '' : ' | undefined'}`};\n`;
  });
  const further = /further fields/.test(description ?? '') ? `${inner}readonly [field: string]: unknown;\n` : '';
  return `{\n${fields.join('')}${further}${indent}}`;
}

function writeText(value: unknown): string {
  if (typeof value !== 'string') throw new Error(`an enum has the value ${JSON.stringify(value)}`);
  return `'${value}'`;
}

function writeComment(text: string | undefined, indent: string): string {
  return text === undefined ? '' : `${indent}/** ${text.replaceAll('*/', '*\\/')} */\n`;
}
