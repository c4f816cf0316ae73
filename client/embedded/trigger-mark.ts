/**
 * `triggers.json`: the deployments whose triggers are enabled. The service writes it for the supervisor, which has no
 * database: the stack and its service stay up as long as the file exists.
 */
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { replaceFile } from './replace-file.ts';

export interface EnabledTriggers {
  readonly count: number;
  /** The first of them by name, at most `MOST_NAMED`. */
  readonly names: readonly string[];
  /** Deliveries wait for their run, or notifications for their receiver, also of a deployment without triggers. */
  readonly hasOpen: boolean;
}

/** More are counted. */
export const MOST_NAMED = 10;

export const NO_TRIGGERS: EnabledTriggers = { count: 0, names: [], hasOpen: false };

function locateFile(stateDir: string): string {
  return join(stateDir, 'triggers.json');
}

/**
 * @returns null if the file cannot be read: the service writes it again when it starts
 */
export function readEnabledTriggers(stateDir: string): EnabledTriggers | null {
  try {
    return parseTriggers(JSON.parse(readFileSync(locateFile(stateDir), 'utf8')));
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? NO_TRIGGERS : null;
  }
}

function parseTriggers(value: unknown): EnabledTriggers | null {
  const { count, names, hasOpen } = (value ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof count !== 'number' || !Number.isSafeInteger(count) || count < 0 || !Array.isArray(names)) return null;
  const isWhole = typeof hasOpen === 'boolean' && names.every((name) => typeof name === 'string');
  return isWhole ? { count, names: names.slice(0, MOST_NAMED), hasOpen } : null;
}

/** Whether the service must run. A file that cannot be read may name a deployment. */
export function hasEnabledTriggers(stateDir: string): boolean {
  const found = readEnabledTriggers(stateDir);
  return found === null || found.count > 0 || found.hasOpen;
}

/** Replaces the file, or removes it if the service need not run. */
export function keepEnabledTriggers(stateDir: string, { count, names, hasOpen }: EnabledTriggers): void {
  const file = locateFile(stateDir);
  if (count === 0 && !hasOpen) rmSync(file, { force: true });
  else replaceFile(file, `${JSON.stringify({ count, names: names.slice(0, MOST_NAMED), hasOpen })}\n`);
}
