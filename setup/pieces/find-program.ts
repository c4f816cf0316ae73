/** Finds programs by variable and PATH, and checks their versions. */
import { accessSync, constants, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Environment } from '../environment.ts';
import type { FoundPiece, SetupContext } from './piece.ts';
import { runProgram } from './run-program.ts';
import { SetupError } from '../setup-error.ts';

/** Folders of administrators' programs, which are not on the PATH of Debian's users. */
const ADMINISTRATION_FOLDERS = ['/usr/local/sbin', '/usr/sbin', '/sbin'];

export interface ProgramWanted {
  /** The key of `Environment.piecePaths`. */
  readonly piece: string;
  readonly variable: string | null;
  /** Names on PATH; the first program that is found is used. */
  readonly names: readonly string[];
  readonly versionArgs: readonly string[];
  /** Matches the version in the program's output, as its first group. */
  readonly versionPattern: RegExp;
  readonly minimumVersion: string;
  /** Returns the problem of this program, or null. */
  readonly complaint?: (path: string, context: SetupContext) => Promise<string | null>;
}

/** Returns the paths of every executable with these names, in the order of PATH. */
export function findOnPath(env: Environment, names: readonly string[]): string[] {
  const folders = [...env.path.split(':').filter((folder) => folder.startsWith('/')), ...ADMINISTRATION_FOLDERS];
  return names.flatMap((name) => [...new Set(folders)].map((folder) => join(folder, name))).filter(isExecutable);
}

export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** Returns the program that the variable names, otherwise the first suitable one on PATH, otherwise null. */
export async function findProgram(context: SetupContext, wanted: ProgramWanted): Promise<FoundPiece | null> {
  const explicit = context.env.piecePaths[wanted.piece];
  if (explicit !== undefined) {
    const checked = await checkProgram(context, wanted, explicit);
    if (typeof checked === 'string') {
      throw new SetupError(
        `${wanted.variable ?? wanted.piece} names ${explicit}, which can't be used: ${checked}.`,
        `Fix or unset ${wanted.variable ?? wanted.piece}.`,
      );
    }
    return { ...checked, from: wanted.variable ?? 'environment' };
  }
  for (const path of findOnPath(context.env, wanted.names)) {
    const checked = await checkProgram(context, wanted, path);
    if (typeof checked !== 'string') return { ...checked, from: 'PATH' };
    context.progress(`passing over ${path}: ${checked}`);
  }
  return null;
}

async function checkProgram(
  context: SetupContext,
  wanted: ProgramWanted,
  path: string,
): Promise<{ path: string; version: string } | string> {
  if (!isExecutable(path)) return 'it is not an executable file';
  const result = await runProgram(context.env, path, wanted.versionArgs);
  const version = wanted.versionPattern.exec(`${result.stdout}\n${result.stderr}`)?.[1];
  if (version === undefined) return `\`${wanted.versionArgs.join(' ')}\` does not print a version`;
  if (compareVersions(version, wanted.minimumVersion) < 0)
    return `it is version ${version}, and ${wanted.minimumVersion} or newer is needed`;
  const complaint = wanted.complaint === undefined ? null : await wanted.complaint(path, context);
  return complaint ?? { path, version };
}

/** Compares the numbers in the versions from left to right; returns a negative number, zero or a positive number. */
export function compareVersions(left: string, right: string): number {
  const [a, b] = [left, right].map((version) => version.match(/\d+/g)?.map(Number) ?? []);
  for (let index = 0; index < Math.max(a?.length ?? 0, b?.length ?? 0); index += 1) {
    const difference = (a?.[index] ?? 0) - (b?.[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
