/** Installs missing programs with the distribution's own package manager, or names the command that does so. */
import { spawn } from 'node:child_process';
import { isRoot } from './apt.ts';
import { askOnTerminal } from '../ask-on-terminal.ts';
import { findOnPath } from './find-program.ts';
import { installLine } from '../machine/host-system.ts';
import type { Piece, SetupContext } from './piece.ts';
import { cutToLastLines, runProgram } from './run-program.ts';
import { SetupError } from '../setup-error.ts';

const INSTALL_TIMEOUT_MS = 600_000;
const UPDATE_TIMEOUT_MS = 180_000;

export function packagesOf(context: SetupContext, pieces: readonly Piece[]): string[] {
  const distribution = context.system.distribution;
  if (distribution === 'other') return [];
  return pieces.flatMap((piece) => (piece.packages === null ? [] : [piece.packages[distribution]]));
}

/** Returns the error for pieces that only packages provide, with the command to type. */
export function createPackagesError(context: SetupContext, pieces: readonly Piece[]): SetupError {
  const names = pieces.map((piece) => piece.name).join(', ');
  const line = installLine(context.system, packagesOf(context, pieces), isRoot());
  return new SetupError(
    `Missing on this machine: ${names}.`,
    line ?? `Install ${names} with the package manager of ${context.system.name}, so that they are on PATH.`,
  );
}

/**
 * Installs the packages of the pieces as root, with `sudo` if the user at the terminal agrees. Otherwise fails with the
 * command to type.
 */
export async function installPackages(context: SetupContext, pieces: readonly Piece[]): Promise<void> {
  const missing = createPackagesError(context, pieces);
  const packages = packagesOf(context, pieces);
  if (packages.length === 0) throw missing;
  await installNamed(context, packages, missing);
}

/** Like `installPackages`, for packages by name. @throws `missing` if they cannot be installed by this process */
export async function installNamed(
  context: SetupContext,
  packages: readonly string[],
  missing: SetupError,
): Promise<void> {
  if (installsAsRoot(context)) return installAsRoot(context, packages);
  if (!(await agreesToSudo(context, packages))) throw missing;
  const line = installLine(context.system, packages, false);
  const exitCode = await new Promise<number | null>((resolve) => {
    const child = spawn('sh', ['-c', line ?? 'false'], { stdio: 'inherit', env: { ...context.env.variables } });
    child.once('error', () => resolve(127));
    child.once('close', resolve);
  });
  if (exitCode !== 0) throw missing;
}

async function installAsRoot(context: SetupContext, packages: readonly string[]): Promise<void> {
  context.progress(`installing ${packages.join(', ')} (apt-get install)`);
  // Another apt-get may hold the lock of the package database for a while.
  const args = ['-o', 'DPkg::Lock::Timeout=300', 'install', '-y', '-qq', '--no-install-recommends', ...packages];
  const install = (): ReturnType<typeof runProgram> =>
    runProgram(context.env, 'apt-get', args, {
      timeoutMs: INSTALL_TIMEOUT_MS,
      variables: { DEBIAN_FRONTEND: 'noninteractive' },
    });
  if ((await install()).exitCode === 0) return;
  // The usual reason is an index that is missing or older than the archive.
  context.progress('reading the package index (apt-get update)');
  await runProgram(context.env, 'apt-get', ['-qq', 'update'], { timeoutMs: UPDATE_TIMEOUT_MS });
  const again = await install();
  if (again.exitCode !== 0)
    throw new SetupError(
      `apt-get can't install ${packages.join(' ')}:\n${cutToLastLines(again)}`,
      'Fix the apt-get errors above and retry.',
    );
}

function installsAsRoot(context: SetupContext): boolean {
  return context.system.distribution === 'debian' && isRoot();
}

/** Returns false if set-up can only name the command to type. */
export function mayInstall(context: SetupContext, packages: readonly string[]): boolean {
  if (packages.length === 0) return false;
  return installsAsRoot(context) || mayAskForSudo(context, installLine(context.system, packages, false));
}

function mayAskForSudo(context: SetupContext, line: string | null): line is string {
  const canAsk = process.stdin.isTTY && process.stderr.isTTY && !context.env.isCi;
  return !isRoot() && canAsk && line !== null && findOnPath(context.env, ['sudo']).length > 0;
}

/** Asks once, and only a user at a terminal. */
async function agreesToSudo(context: SetupContext, packages: readonly string[]): Promise<boolean> {
  const line = installLine(context.system, packages, false);
  if (!mayAskForSudo(context, line)) return false;
  const question = `Voidbox needs packages of ${context.system.name}:\n  ${line}\nRun this now?`;
  return (await askOnTerminal(process, question)) === true;
}
