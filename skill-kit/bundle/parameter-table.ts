/** A skill's params as a table, from their JSON Schema. */
import { render } from '../prompt/render.ts';

type Schema = Readonly<Record<string, unknown>>;

/** Null when the schema names no properties. */
export function parameterTable(schema: Schema): string | null {
  const properties = Object.entries(isSchema(schema['properties']) ? schema['properties'] : {});
  if (properties.length === 0) return null;
  const required = Array.isArray(schema['required']) ? (schema['required'] as unknown[]) : [];
  return render.table(
    properties.map(([name, value]) => {
      const property = isSchema(value) ? value : {};
      return {
        name: `\`${name}\``,
        type: typeText(property),
        required: required.includes(name) ? 'yes' : 'no',
        default: property['default'] === undefined ? '' : `\`${JSON.stringify(property['default'])}\``,
        meaning: typeof property['description'] === 'string' ? property['description'].replaceAll(/\s+/g, ' ') : '',
      };
    }),
  );
}

function typeText(schema: Schema): string {
  const { type, enum: values, const: value, anyOf, items } = schema;
  if (value !== undefined) return `\`${JSON.stringify(value)}\``;
  if (Array.isArray(values)) return values.map((one) => `\`${JSON.stringify(one)}\``).join(' or ');
  if (Array.isArray(anyOf)) return [...new Set(anyOf.map((one) => typeText(isSchema(one) ? one : {})))].join(' or ');
  if (type === 'array' && isSchema(items)) return `array of ${typeText(items)}`;
  if (Array.isArray(type)) return type.join(' or ');
  return typeof type === 'string' ? type : 'any';
}

function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
