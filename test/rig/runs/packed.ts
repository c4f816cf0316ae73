/** The package as its users get it: packed, and installed into an empty folder. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findPackageRoot } from '../../../setup/package-root.ts';

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

export async function installPackage(): Promise<InstalledPackage> {
  const folder = mkdtempSync(join(tmpdir(), 'voidbox-installed-'));
  await mustRun('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', folder], findPackageRoot());
  const tarball = readdirSync(folder).find((name) => name.endsWith('.tgz'));
  if (tarball === undefined) throw new Error('npm pack left no tarball');
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n');
  await mustRun('npm', ['install', '--no-audit', '--no-fund', '--prefer-offline', `./${tarball}`], folder);
  // The folder of this account may be of another build.
  const own = { VOIDBOX_STATE_DIR: join(folder, '.state') };
  return {
    folder,
    voidbox: (args, variables = {}) =>
      run('npx', ['--no-install', 'voidbox', ...args], folder, { ...own, ...variables }, COMMAND_TIMEOUT_MS),
    remove: () => rm(folder, { recursive: true, force: true }),
  };
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
