/** A package of npm whose archive set-up fetches, checks by its hash and unpacks. It is never installed. */
import { createHash } from 'node:crypto';
import { createReadStream, readFileSync } from 'node:fs';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { findOnPath } from './find-program.ts';
import { reportGrowth, sizeBelow } from '../long-work.ts';
import type { SetupContext } from './piece.ts';
import { cutToLastLines, runProgram } from './run-program.ts';
import { SetupError } from '../setup-error.ts';

const DOWNLOAD_TIMEOUT_MS = 1_200_000;
const UNPACK_TIMEOUT_MS = 300_000;
/** The memory that npm needs in addition to the package. */
const NPM_MIB = 512;
const MIB = 1_048_576;

export interface NpmPackage {
  /** Its name in messages, such as `the codex command line`. */
  readonly label: string;
  /** The package with its version, in npm's form. */
  readonly package: string;
  readonly version: string;
  /** The hash of the package's archive, in npm's form. */
  readonly integrity: string;
  /** The size of the download, for progress. */
  readonly downloadMb: number;
  readonly roomMib: number;
}

export function findNpmBlocker(context: SetupContext, wanted: NpmPackage): SetupError | null {
  if (findOnPath(context.env, ['npm']).length > 0) return null;
  return new SetupError(
    `There is no npm on PATH, which fetches ${wanted.label}.`,
    'Install npm, or put the npm of your Node on PATH.',
  );
}

/**
 * Puts the contents of the package into the folder `package` of `into`.
 * @throws SetupError if npm cannot fetch it, or if its hash is another
 */
export async function unpackNpmPackage(context: SetupContext, wanted: NpmPackage, into: string): Promise<void> {
  const download = join(into, 'download');
  await mkdir(download);
  const archive = await downloadPackage(context, wanted, download);
  await checkIntegrity(wanted, archive);
  context.progress(`unpacking ${wanted.label}`);
  // The archive's owners do not exist on this machine.
  await run(context, `unpack ${wanted.package}`, 'tar', ['-xzf', archive, '-C', into, '--no-same-owner']);
  await rm(download, { recursive: true });
}

/** Lets every user read the files, whatever their modes in the package, and only the owner write. */
export async function allowEveryReader(context: SetupContext, folder: string): Promise<void> {
  await run(context, 'let every user read it', 'chmod', ['-R', 'u+rwX,go+rX,go-w', folder]);
}

/** Downloads with npm's own configuration: registry, proxy, credentials. */
async function downloadPackage(context: SetupContext, wanted: NpmPackage, folder: string): Promise<string> {
  const what = `downloading ${wanted.label} ${wanted.version}`;
  context.progress(`${what} (npm, about ${wanted.downloadMb} MB)`);
  const packed = runProgram(
    context.env,
    'npm',
    // npm must not run scripts of a package. Its own cache would keep the archive for ever. `--silent` would hide the
    // reason of a failure.
    [
      'pack',
      wanted.package,
      '--loglevel=error',
      '--ignore-scripts',
      '--no-update-notifier',
      '--cache',
      join(folder, 'cache'),
    ],
    { cwd: folder, timeoutMs: DOWNLOAD_TIMEOUT_MS, reasonToEnd: (pid) => findReasonToEnd(wanted, folder, pid) },
  );
  const result = await reportGrowth(context.progress, what, { folder, expectedMb: wanted.downloadMb }, packed);
  const archive = (await readdir(folder)).find((name) => name.endsWith('.tgz'));
  if (result.exitCode !== 0 || archive === undefined)
    throw new SetupError(
      `npm cannot download ${wanted.package}:\n${dropTrace(cutToLastLines(result, 40))}`,
      'Check npm’s registry and proxy (npm config list), and retry.',
    );
  return join(folder, archive);
}

/** A registry that sends without end would fill the disk, or the memory of npm, which holds the package. */
async function findReasonToEnd(wanted: NpmPackage, folder: string, pid: number): Promise<string | null> {
  const taken = [
    { what: 'on the disk', bytes: await sizeBelow(folder), limitMib: wanted.roomMib },
    { what: 'of memory', bytes: readResidentBytes(pid), limitMib: wanted.roomMib + NPM_MIB },
  ].find(({ bytes, limitMib }) => bytes > limitMib * MIB);
  if (taken === undefined) return null;
  return `it has taken ${Math.floor(taken.bytes / MIB)} MiB ${taken.what} for a package of about ${wanted.downloadMb} MB, and ${taken.limitMib} MiB are the most`;
}

function readResidentBytes(pid: number): number {
  try {
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}

/** Keeps npm's first lines, which name the problem, and drops the stack trace after them. */
function dropTrace(text: string): string {
  const lines = text.split('\n');
  return lines.filter((line) => !/^npm error(?: {2,}| \}$)/.test(line)).join('\n');
}

/** Rejects a package that differs from the one with which this version of Voidbox was tested. */
async function checkIntegrity(wanted: NpmPackage, archive: string): Promise<void> {
  const hash = createHash('sha512');
  await pipeline(createReadStream(archive), hash);
  const found = `sha512-${hash.digest('base64')}`;
  if (found !== wanted.integrity)
    throw new SetupError(
      `The file that npm downloaded for ${wanted.package} is not that package: its hash is ${found}, but ${wanted.integrity} is expected.`,
      'Use a registry that serves the package as it was published.',
    );
}

async function run(context: SetupContext, what: string, program: string, args: readonly string[]): Promise<void> {
  const result = await runProgram(context.env, program, args, { timeoutMs: UNPACK_TIMEOUT_MS });
  if (result.exitCode !== 0)
    throw new SetupError(
      `Set-up cannot ${what} (${program}):\n${cutToLastLines(result)}`,
      'Check the free space of the cache folder.',
    );
}
