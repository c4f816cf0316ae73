/** Finds programs by variable and PATH, and checks that they are what is wanted. */
import { accessSync, constants, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Environment } from '../environment.ts';
import type { FoundPiece, SetupContext } from './piece.ts';
import { runProgram } from './run-program.ts';
import { SetupError } from '../setup-error.ts';

/** Administrators' programs, which users of Debian don't have on PATH. */
const ADMINISTRATION_FOLDERS = ['/usr/local/sbin', '/usr/sbin', '/sbin'];

export interface ProgramWanted {
  /** Key of `Environment.piecePaths`. */
  readonly piece: string;
  readonly variable: string | null;
  /** Names on PATH, the first that is found wins. */
  readonly names: readonly string[];
  readonly versionArgs: readonly string[];
  /** Finds the version in what the program prints, as its first group. */
  readonly versionPattern: RegExp;
  readonly minimumVersion: string;
  /** What is wrong with this program, or null. */
  readonly complaint?: (path: string, context: SetupContext) => Promise<string | null>;
}

/** The paths of every executable of these names, in the order of PATH. */
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

/** The program that the variable names, else the first fit one on PATH, else null. */
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

/** Negative, zero or positive, by the numbers in the versions from left to right. */
export function compareVersions(left: string, right: string): number {
  const [a, b] = [left, right].map((version) => version.match(/\d+/g)?.map(Number) ?? []);
  for (let index = 0; index < Math.max(a?.length ?? 0, b?.length ?? 0); index += 1) {
    const difference = (a?.[index] ?? 0) - (b?.[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
