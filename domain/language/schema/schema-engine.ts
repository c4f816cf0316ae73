/** Loads Ajv; call it only if a spec has a schema. */
import type { CheckSchema, SchemaEngine } from './output-schema.ts';
import { findSchemaProblem } from './output-schema.ts';

export async function loadSchemaEngine(): Promise<SchemaEngine> {
  const [{ Ajv }, { Ajv2020 }] = await Promise.all([import('ajv'), import('ajv/dist/2020.js')]);
  return { Ajv, Ajv2020 };
}

export async function loadCheckSchema(): Promise<CheckSchema> {
  const engine = await loadSchemaEngine();
  return (schema) => findSchemaProblem(engine, schema);
}
