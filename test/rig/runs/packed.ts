/** The package as its users get it: packed, and installed into an empty folder. Groups of one `npm test` share the installation. */
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findPackageRoot } from '../../../setup/package-root.ts';
import { SHARED_FOLDER } from '../../../setup/test-report.mjs';

export interface CommandResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface InstalledPackage {
  readonly folder: string;
  /** Runs `npx voidbox ARGS` in the folder. */
  readonly voidbox: (args: readonly string[], variables?: Readonly<Record<string, string>>) => Promise<CommandResult>;
  readonly remove: () => Promise<void>;
}

const INSTALL_TIMEOUT_MS = 240_000;
const COMMAND_TIMEOUT_MS = 240_000;

/**
 * Each caller has a folder of its own. Only the files of dependencies are shared: what a caller does to its folders and
 * to Voidbox itself reaches no other one.
 */
export async function installPackage(): Promise<InstalledPackage> {
  const folder = mkdtempSync(join(tmpdir(), 'voidbox-installed-'));
  const shared = process.env[SHARED_FOLDER];
  if (shared === undefined) await installInto(folder);
  else await copyInstallation(await installOnce(shared), folder);
  // The folder of this account may be of another build.
  const own = { VOIDBOX_STATE_DIR: join(folder, '.state') };
  return {
    folder,
    voidbox: (args, variables = {}) =>
      run('npx', ['--no-install', 'voidbox', ...args], folder, { ...own, ...variables }, COMMAND_TIMEOUT_MS),
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

async function installInto(folder: string): Promise<void> {
  await mustRun('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', folder], findPackageRoot());
  const tarball = readdirSync(folder).find((name) => name.endsWith('.tgz'));
  if (tarball === undefined) throw new Error('npm pack left no tarball');
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n');
  await mustRun('npm', ['install', '--no-audit', '--no-fund', '--prefer-offline', `./${tarball}`], folder);
}

/** Returns the folder of the installation, which is whole: a failed one gets another name, and the next caller installs again. */
async function installOnce(shared: string): Promise<string> {
  const installation = join(shared, 'installed');
  if (existsSync(installation)) return installation;
  const folder = mkdtempSync(join(shared, 'installing-'));
  await installInto(folder);
  renameSync(folder, installation);
  return installation;
}

async function copyInstallation(from: string, to: string): Promise<void> {
  await mustRun('cp', ['-a', '--link', `${from}/.`, to], from);
  const own = join('node_modules', 'voidbox');
  await rm(join(to, own), { recursive: true });
  await mustRun('cp', ['-a', join(from, own), join(to, own)], from);
}

async function mustRun(program: string, args: readonly string[], cwd: string): Promise<void> {
  const result = await run(program, args, cwd, {}, INSTALL_TIMEOUT_MS);
  if (result.exitCode !== 0)
    throw new Error(`${program} ${args.join(' ')} ended with ${result.exitCode}:\n${result.stdout}\n${result.stderr}`);
}

function run(
  program: string,
  args: readonly string[],
  cwd: string,
  variables: Readonly<Record<string, string>>,
  timeoutMs: number,
): Promise<CommandResult> {
  return new Promise((resolve) => {
    execFile(
      program,
      args,
      { cwd, env: { ...process.env, ...variables }, timeout: timeoutMs, maxBuffer: 16_777_216 },
      (error, stdout, stderr) => {
        resolve({ exitCode: error === null ? 0 : typeof error.code === 'number' ? error.code : -1, stdout, stderr });
      },
    );
  });
}
