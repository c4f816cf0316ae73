import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { Buildable } from '../../domain/step-machine/definition.ts';
import { inputJsonSchema } from '../author/schema.ts';
import { readPackageFile } from './package-file.ts';

/**
 * Returns the folder's package.json: the skill's own package fields, then its name and version. It also contains the
 * JSON Schema of the skill's params, so that a caller can check values without running the skill's code.
 */
export function packageJson(
  definition: Buildable,
  version: string,
  existing: Readonly<Record<string, unknown>>,
): string {
  const { name, package: own = {} } = definition;
  const { voidbox: ours, ...before } = existing;
  const said = own['voidbox'];
  const voidbox = {
    ...(isObject(ours) ? ours : {}),
    ...(isObject(said) ? said : {}),
    params: paramsSchema(definition),
  };
  const all = { ...before, ...own, name: own.name ?? name, version };
  const isEmpty = Object.values(voidbox).every((value) => value === undefined);
  return `${JSON.stringify(isEmpty ? all : { ...all, voidbox }, null, 2)}\n`;
}

/** Undefined: the skill has no params, or its schema library exports no JSON Schema. */
function paramsSchema(definition: Buildable): Readonly<Record<string, unknown>> | undefined {
  if (definition.kind === 'reference' || definition.params === undefined) return undefined;
  return inputJsonSchema(definition.params) ?? undefined;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** @throws CodedError `skill/output-taken` for one that is no JSON object, so that nothing of it is lost */
export function readExistingPackage(folder: string): Readonly<Record<string, unknown>> {
  const file = join(folder, 'package.json');
  if (!existsSync(file)) return {};
  try {
    const found: unknown = readPackageFile(file);
    if (typeof found === 'object' && found !== null && !Array.isArray(found)) return found as Record<string, unknown>;
  } catch (cause) {
    throw new CodedError('skill/output-taken', `${file} cannot be merged: ${(cause as Error).message}`, { cause });
  }
  throw new CodedError('skill/output-taken', `${file} cannot be merged: it is not a JSON object`);
}
