/**
 * Checks everything that could stop set-up before the first download, so that the user gets all problems in one
 * message.
 */
import { mayInstall, createPackagesError, packagesOf } from '../pieces/distribution-packages.ts';
import { findOnPath } from '../pieces/find-program.ts';
import { freeSpaceAt } from '../cache/free-space.ts';
import { openFilesLimit, STACK_OPEN_FILES, tooFewOpenFiles } from '../open-files.cjs';
import type { PieceName, SetupContext } from '../pieces/piece.ts';
import { findPiece } from '../pieces/pieces.ts';
import { SetupError } from '../setup-error.ts';
import { inspectFolder } from '../cache/write-probe.ts';

const MIB = 1_048_576;

/** The facts that the checks read from the machine itself. */
export interface Machine {
  readonly availableBytes: (path: string) => number;
  /** Null if the system does not report it. */
  readonly openFiles: () => number | null;
}

const THIS_MACHINE: Machine = {
  availableBytes: (path) => freeSpaceAt(path).availableBytes,
  openFiles: openFilesLimit,
};

/**
 * Returns if no known problem would stop set-up from getting the pieces; downloads, compiles and installs nothing.
 * @throws SetupError that names every problem with its remedy
 */
export async function checkBeforeGetting(
  context: SetupContext,
  wanted: readonly PieceName[],
  machine: Machine = THIS_MACHINE,
): Promise<void> {
  // Getting the pieces reports what it skips, so this check stays silent.
  const quiet = { ...context, progress: () => undefined };
  const { missing, problems } = await findMissing(quiet, wanted);
  if (missing.length > 0) {
    problems.push(...packageProblems(context, missing));
    for (const name of missing) {
      const blocker = (await findPiece(name).blocker?.(quiet)) ?? null;
      // The keeper and the agent lack the same Rust.
      if (blocker !== null && !problems.some(({ message }) => message === blocker.message)) problems.push(blocker);
    }
    problems.push(...(await placeProblems(context, missing, machine)));
  }
  const [first] = problems;
  if (first === undefined) return;
  if (problems.length === 1) throw first;
  throw new SetupError(
    `Set-up found ${problems.length} problems and has downloaded nothing.\n${problems.map(describeProblem).join('\n')}`,
    'Fix all of them and retry.',
  );
}

function describeProblem({ message, remedy }: SetupError): string {
  const fixes = (remedy ?? '').split('\n').filter((line) => line !== '');
  return [`- ${message}`, ...fixes.map((line) => `  fix: ${line}`)].join('\n');
}

/**
 * Returns the missing pieces, and those from which they are made. A variable that names the wrong file is a problem.
 */
async function findMissing(
  context: SetupContext,
  wanted: readonly PieceName[],
): Promise<{ readonly missing: PieceName[]; readonly problems: SetupError[] }> {
  const missing: PieceName[] = [];
  const problems: SetupError[] = [];
  const queue = [...wanted];
  const seen = new Set<PieceName>();
  for (let name = queue.shift(); name !== undefined; name = queue.shift()) {
    if (seen.has(name)) continue;
    seen.add(name);
    const piece = findPiece(name);
    try {
      if ((await piece.find(context)) !== null) continue;
    } catch (error) {
      if (!(error instanceof SetupError)) throw error;
      problems.push(error);
      continue;
    }
    missing.push(name);
    queue.push(...piece.needs);
  }
  return { missing: missing.filter((name) => !isMade(name, missing)), problems };
}

/** A local piece counts as present while its inputs are present, because making it takes at most a second. */
function isMade(name: PieceName, missing: readonly PieceName[]): boolean {
  const piece = findPiece(name);
  return piece.isLocal && !piece.needs.some((needed) => missing.includes(needed));
}

function packageProblems(context: SetupContext, missing: readonly PieceName[]): SetupError[] {
  const packaged = missing.map(findPiece).filter((piece) => piece.packages !== null && piece.get === null);
  if (packaged.length === 0 || mayInstall(context, packagesOf(context, packaged))) return [];
  return [createPackagesError(context, packaged)];
}

async function placeProblems(
  context: SetupContext,
  missing: readonly PieceName[],
  machine: Machine,
): Promise<SetupError[]> {
  const { env } = context;
  const problems: SetupError[] = [];
  const cache = { path: env.cacheDir, what: 'cache folder', variable: 'VOIDBOX_CACHE_DIR' };
  const state = { path: env.stateDir, what: 'state folder', variable: 'VOIDBOX_STATE_DIR' };
  const [cacheReport, stateReport] = await Promise.all([inspectFolder(cache), inspectFolder(state)]);
  for (const { problem, remedy } of [cacheReport, stateReport])
    if (problem !== null) problems.push(new SetupError(`${problem.replace(/^t/, 'T')}.`, remedy));
  const space =
    cacheReport.problem === null ? findSpaceProblem(env.cacheDir, missing, machine.availableBytes(env.cacheDir)) : null;
  if (space !== null) problems.push(space);
  if (findOnPath(env, ['flock']).length === 0)
    problems.push(
      new SetupError('There is no flock on PATH, and set-up locks the cache with it.', 'Install util-linux.'),
    );
  const tooFew = tooFewOpenFiles('The embedded stack', STACK_OPEN_FILES, machine.openFiles());
  if (tooFew !== null) problems.push(new SetupError(tooFew.message, tooFew.remedy));
  return problems;
}

/** Returns the free space that these pieces need in the cache, all together. */
export function roomForBytes(missing: readonly PieceName[]): number {
  const isBuiltTwice = missing.includes('keeper') && missing.includes('agent');
  const mib = missing.reduce((sum, name) => sum + findPiece(name).roomMib, 0);
  return (mib - (isBuiltTwice ? findPiece('agent').roomMib : 0)) * MIB;
}

export function findSpaceProblem(
  cacheDir: string,
  missing: readonly PieceName[],
  availableBytes: number,
): SetupError | null {
  const neededBytes = roomForBytes(missing);
  if (availableBytes >= neededBytes) return null;
  const names = missing.filter((name) => findPiece(name).roomMib > 0).join(', ');
  return new SetupError(
    `Getting ${names} takes up to ${neededBytes / MIB} MiB, and the disk of the cache folder ${cacheDir} has ${Math.floor(availableBytes / MIB)} MiB free.`,
    'Free space on that disk, or name a folder on another one: export VOIDBOX_CACHE_DIR=…',
  );
}
