import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { Buildable } from '../../domain/step-machine/definition.ts';

/** What stands in the folder's package.json, under what the skill says of its package, under its name and version. */
export function packageJson(
  { name, package: own = {} }: Buildable,
  version: string,
  existing: Readonly<Record<string, unknown>>,
): string {
  return `${JSON.stringify({ ...existing, ...own, name: own.name ?? name, version }, null, 2)}\n`;
}

/** @throws CodedError `skill/output-taken` for one that is no JSON object, so that nothing of it is lost */
export function existingPackage(folder: string): Readonly<Record<string, unknown>> {
  const file = join(folder, 'package.json');
  if (!existsSync(file)) return {};
  try {
    const found: unknown = JSON.parse(readFileSync(file, 'utf8'));
    if (typeof found === 'object' && found !== null && !Array.isArray(found)) return found as Record<string, unknown>;
  } catch (cause) {
    throw new CodedError('skill/output-taken', `${file} cannot be merged: ${(cause as Error).message}`, { cause });
  }
  throw new CodedError('skill/output-taken', `${file} cannot be merged: it is not a JSON object`);
}
