import type { Notify } from '../../domain/notification/notify.ts';
import { existsSync } from 'node:fs';
import { dirname, extname, relative, resolve } from 'node:path';
import { findUtf16 } from '../../domain/units/utf8.ts';
import type { Diagnostic } from '../../domain/errors/diagnostic.ts';
import type { Trigger } from '../../domain/delivery/trigger.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import type { AppliedSettings } from '../../domain/language/compile/apply-settings.ts';
import type { HostSettings } from '../../domain/language/compile/stage/host-settings.ts';
import { listFiles } from '../../sdk/list-files.ts';
import { readStepMachine } from '../../sdk/read-skill.ts';
import { createReadSpec } from '../../sdk/read-spec.ts';
import { trackListed, trackRead } from '../../sdk/track-reads.ts';
import { readNamedFile } from '../../files/named-file.ts';
import { FileRefusal } from '../../files/open-file.ts';
import { baseDirHint, findFromCwd } from './base-dir.ts';
import { type AppError, createUsageError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import { limitReader, listSpecRoots } from './spec-roots.ts';

export interface LoadedSpec {
  /** The path as the user sees it: relative if that is shorter. */
  readonly file: string;
  /** The texts of the files that diagnostics name, by their shown paths. */
  readonly sources: ReadonlyMap<string, string>;
  /** Full path; null: standard input. */
  readonly path: string | null;
  /** Null for a definition. */
  readonly text: string | null;
  /** The spec that is compiled: `text`, or what the code of a definition made, as JSON. Null: the code made none. */
  readonly spec: string | null;
  /** Absolute; relative mounts start there. */
  readonly baseDir: string;
  /** Null when a diagnostic is an error. */
  readonly plan: Plan | null;
  readonly diagnostics: readonly Diagnostic[];
  /** The places in the spec or definition that name the host paths of mounts and skills, by full path. */
  readonly mountPlaces: ReadonlyMap<string, MountPlace>;
  /** The effect of the variables that override settings. */
  readonly appliedSettings: AppliedSettings;
  /** Empty when a diagnostic is an error. */
  readonly triggers: readonly Trigger[];
  /** Without receivers when a diagnostic is an error. */
  readonly notify: Notify;
  /** Mistakes that only a deployment has, as errors; `diagnostics` has them as warnings. */
  readonly deployProblems: readonly Diagnostic[];
  /** Names of parameters that a run must still give, in the order of the spec; empty without `allowsMissingParams`. */
  readonly missingParams: readonly string[];
}

/** The values with which a spec is compiled. */
export interface SpecValues {
  readonly params: Readonly<Record<string, string>>;
  /** They override the spec; null: no variable is set. */
  readonly settings: HostSettings | null;
  /** Folders of `--allow-mounts`, absolute: parts may be there, too. Absent: no folder. */
  readonly allow?: readonly string[];
  /** Parameters that a run must give and that `params` lacks are listed instead of reported as mistakes. */
  readonly allowsMissingParams?: boolean;
  /** The folder where relative paths start, absolute. Absent: the folder of the spec. */
  readonly baseDir?: string;
  /** Called with the absolute path of each file besides the spec that decides the plan. Absent: nothing is called. */
  readonly onRead?: (path: string) => void;
}

/** `FILE:LINE:COLUMN: ` of the path in the spec; empty if the place is unknown. */
export function placeOfPath(places: ReadonlyMap<string, MountPlace>, path: string): string {
  const place = places.get(path);
  return place === undefined ? '' : `${place.file}:${place.line}:${place.column}: `;
}

export interface MountPlace {
  /** The path as the user sees it. */
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** The name of a spec without a path, in diagnostics. */
export const STDIN_NAME = '<stdin>';

/**
 * Reads and compiles a spec; `-` is standard input. A definition in TypeScript or JavaScript runs on this machine. The
 * diagnostics contain every mistake.
 */
export async function loadSpec(file: string, values: SpecValues, context: Machine): Promise<LoadedSpec> {
  const { params, settings, allowsMissingParams } = values;
  const missingParams: string[] = [];
  const fromStdin = file === '-';
  const path = fromStdin ? resolve(context.cwd, 'stdin') : resolve(context.cwd, file);
  if (!fromStdin && isDefinition(path)) return await loadCode(path, file, values, context);
  const text = decode(
    fromStdin ? await context.readStdin() : readSpecFile(path, file),
    fromStdin ? 'standard input' : `\`${file}\``,
  );
  const shown = fromStdin ? STDIN_NAME : shortest(file, relative(context.cwd, path));
  const { loadText } = await import('../../domain/language/load.ts');
  const baseDir = values.baseDir ?? dirname(path);
  const { mountPlaces, parts, ...compiled } = await loadText(text, shown, {
    baseDir,
    params,
    readStepMachine: withHint(limitReader(readStepMachine, context), baseDir, context.cwd),
    readSpec: trackRead(
      withHint(
        limitReader(createReadSpec(listSpecRoots(baseDir, values.allow ?? [], context)), context),
        baseDir,
        context.cwd,
      ),
      values.onRead,
    ),
    listFiles: trackListed(listFiles, values.onRead),
    ...(allowsMissingParams === true ? { missingParams } : {}),
    ...(settings === null ? {} : { settings }),
  });
  const places = new Map([...mountPlaces].map(([mounted, at]) => [mounted, { file: shown, ...at }]));
  return {
    file: shown,
    path: fromStdin ? null : path,
    text,
    spec: text,
    sources: new Map([...parts, [shown, text]]),
    baseDir,
    mountPlaces: places,
    ...compiled,
    missingParams,
  };
}

/** A reader of files that names those that exist only below the working folder. */
function withHint<T extends object>(
  read: (path: string) => T | { readonly problem: string },
  baseDir: string,
  cwd: string,
): (path: string) => T | { readonly problem: string } {
  return (path) => {
    const found = read(path);
    if (!('problem' in found) || existsSync(path)) return found;
    const fromCwd = findFromCwd(path, baseDir, cwd);
    if (fromCwd === null) return found;
    const problem = `${String(found.problem)}; it is only below the working directory: ${fromCwd} (${baseDirHint(cwd)})`;
    return { problem };
  };
}

/** Repeats a check of the loader, because the bundler is loaded only for definitions. */
function isDefinition(path: string): boolean {
  return ['.ts', '.mts', '.js', '.mjs'].includes(extname(path));
}

async function loadCode(path: string, file: string, values: SpecValues, context: Machine): Promise<LoadedSpec> {
  readSpecFile(path, file);
  const formatPath = (full: string): string => shortest(full, relative(context.cwd, full));
  const { loadDefinition } = await import('../../sdk/load/load-definition.ts');
  const { params, settings, allowsMissingParams } = values;
  const missingParams: string[] = [];
  const baseDir = values.baseDir ?? dirname(path);
  const loaded = await loadDefinition(path, {
    params,
    settings,
    ...(allowsMissingParams === true ? { missingParams } : {}),
    roots: listSpecRoots(baseDir, values.allow ?? [], context),
    onRead: values.onRead,
    baseDir,
    variables: context.env.variables,
    shown: formatPath,
  });
  return { file: formatPath(path), path, text: null, baseDir, ...loaded, missingParams };
}

/** Bytes that are not text would reach commands as changed arguments. A byte order mark is removed. */
function decode(bytes: Uint8Array, what: string): string {
  const encoding = findUtf16(bytes);
  const save = `Save it as UTF-8: iconv -f ${encoding ?? 'LATIN1'} -t UTF-8 FILE`;
  if (encoding !== null) throw createUsageError(`${what} is UTF-16 text`, save);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw createUsageError(`${what} is not UTF-8 text`, save);
  }
}

/** Longer than any spec that is compiled, so that the reader of specs names its own limit. */
const SPEC_BYTES = 64 * 1024 * 1024;

function refusalOfSpec(typed: string, { reason, message }: FileRefusal, remedy: string): AppError {
  if (reason === 'missing') return createUsageError(`the file \`${typed}\` does not exist`, remedy);
  return createUsageError(
    reason === 'denied'
      ? `\`${typed}\` cannot be read by this user`
      : `\`${typed}\` cannot be read as a spec: ${message}`,
  );
}

/**
 * Reads a file beside a spec, with the checks of the spec itself.
 * @param remedy  of a file that does not exist
 * @throws AppError
 */
export function readTextBeside(typed: string, remedy: string, { cwd }: Pick<Machine, 'cwd'>): string {
  return decode(readSpecFile(resolve(cwd, typed), typed, remedy), `\`${typed}\``);
}

function readSpecFile(path: string, typed: string, remedy = 'Write a first spec: voidbox init'): Uint8Array {
  try {
    return readNamedFile(path, SPEC_BYTES);
  } catch (error) {
    if (error instanceof FileRefusal) throw refusalOfSpec(typed, error, remedy);
    const { code, message } = error as NodeJS.ErrnoException;
    if (typeof code === 'string') throw createUsageError(`cannot read \`${typed}\`: ${message}`);
    throw error;
  }
}

function shortest(first: string, second: string): string {
  return second !== '' && second.length < first.length ? second : first;
}
