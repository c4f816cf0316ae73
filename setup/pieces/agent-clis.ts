/**
 * The command lines of agents. Each is an npm package that is fetched when a run first needs it, and is never
 * redistributed.
 */
import { createHash } from 'node:crypto';
import { createReadStream, readFileSync } from 'node:fs';
import { mkdir, readdir, rm, symlink } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { type CacheFolder, ensureCacheFolder, findCacheFolder, hashInputs } from '../cache/cache.ts';
import { findOnPath, isExecutable } from './find-program.ts';
import { reportGrowth, sizeBelow } from '../long-work.ts';
import type { FoundPiece, Piece, SetupContext } from './piece.ts';
import { cutToLastLines, runProgram } from './run-program.ts';
import { SetupError } from '../setup-error.ts';

const DOWNLOAD_TIMEOUT_MS = 1_200_000;
const UNPACK_TIMEOUT_MS = 300_000;
/** The memory that npm needs in addition to the package. */
const NPM_MIB = 512;
const MIB = 1_048_576;
/** Part of the cache key. It must grow whenever the same package produces another folder. */
const RECIPE = '1';

export interface AgentCli {
  /** The name of the piece, and of the program in `bin/`. */
  readonly name: 'claude' | 'codex';
  /** The package with its version, in npm's form. */
  readonly package: string;
  readonly version: string;
  /** The hash of the package's archive, in npm's form. */
  readonly integrity: string;
  /** The program in the package. */
  readonly program: string;
  /** The size of the download, for progress. */
  readonly downloadMb: number;
  readonly roomMib: number;
}

/** OpenAI's command line: Apache-2.0, a static binary, which any guest can run. */
export const CODEX: AgentCli = {
  name: 'codex',
  package: '@openai/codex@0.169.0-linux-x64',
  version: '0.169.0',
  integrity: 'sha512-o05NyAOCDygSPRo1yinzxvkRSdmsZyBD9E7mbpmjRanSfM8lypqWtQgEo4XfNkwhuCR2aFu8mlGOsQGFXVbVww==',
  program: 'vendor/x86_64-unknown-linux-musl/bin/codex',
  downloadMb: 167,
  roomMib: 850,
};

/** Anthropic's command line: proprietary, so each user must fetch it; it needs glibc. */
export const CLAUDE: AgentCli = {
  name: 'claude',
  package: '@anthropic-ai/claude-code-linux-x64@2.1.330',
  version: '2.1.330',
  integrity: 'sha512-9Gn+V7DtJ8M1nztP9CeDVl9g3RtrepI7rOFTyPRRnZe8D6zebIHKmC7OvBauucuAP0X0k85SDN/LPVZyjsGezQ==',
  program: 'claude',
  downloadMb: 175,
  roomMib: 800,
};

/** A folder that is mounted unchanged; `bin/<name>` is a link to the program. */
export function agentCliPiece(cli: AgentCli): Piece {
  return {
    name: cli.name,
    purpose: `the ${cli.name} command line, for stages that run it`,
    variable: null,
    packages: null,
    isLocal: false,
    needs: [],
    roomMib: cli.roomMib,
    folder: (context) => cacheFolder(context, cli),
    blocker: (context) => Promise.resolve(npmBlocker(context, cli)),
    find: (context) => Promise.resolve(findCli(context, cli)),
    get: (context) => getCli(context, cli),
  };
}

function cacheFolder(context: SetupContext, cli: AgentCli): CacheFolder {
  return {
    cacheDir: context.env.cacheDir,
    piece: `agent-${cli.name}`,
    hash: hashInputs([RECIPE, cli.package, cli.integrity, cli.program]),
    roomMib: cli.roomMib,
    main: join('package', cli.program),
  };
}

function findCli(context: SetupContext, cli: AgentCli): FoundPiece | null {
  const path = findCacheFolder(cacheFolder(context, cli));
  return path === null ? null : { path, version: cli.version, from: 'cache' };
}

function npmBlocker(context: SetupContext, cli: AgentCli): SetupError | null {
  if (findOnPath(context.env, ['npm']).length > 0) return null;
  return new SetupError(
    `There is no npm on PATH, which fetches the ${cli.name} command line.`,
    'Install npm, or put the npm of your Node on PATH.',
  );
}

async function getCli(context: SetupContext, cli: AgentCli): Promise<FoundPiece> {
  const blocker = npmBlocker(context, cli);
  if (blocker !== null) throw blocker;
  const path = await ensureCacheFolder(
    cacheFolder(context, cli),
    (into) => makeFolder(context, cli, into),
    () => context.progress(`waiting for another set-up to get the ${cli.name} command line`),
  );
  return { path, version: cli.version, from: 'cache' };
}

async function makeFolder(context: SetupContext, cli: AgentCli, into: string): Promise<void> {
  const download = join(into, 'download');
  await mkdir(download);
  const archive = await downloadPackage(context, cli, download);
  await checkIntegrity(cli, archive);
  context.progress(`unpacking the ${cli.name} command line`);
  // The archive's owners do not exist on this machine, and its modes must let every user read: a VMM runs as another
  // user.
  await run(context, `unpack ${cli.package}`, 'tar', ['-xzf', archive, '-C', into, '--no-same-owner']);
  await rm(download, { recursive: true });
  const program = join(into, 'package', cli.program);
  if (!isExecutable(program)) throw new SetupError(`The package ${cli.package} holds no program ${cli.program}.`, null);
  const bin = join(into, 'bin');
  await mkdir(bin);
  await symlink(relative(bin, program), join(bin, cli.name));
  await run(context, 'let VMs read it', 'chmod', ['-R', 'u+rwX,go+rX,go-w', into]);
}

/** Downloads with npm's own configuration: registry, proxy, credentials. */
async function downloadPackage(context: SetupContext, cli: AgentCli, folder: string): Promise<string> {
  const what = `downloading the ${cli.name} command line ${cli.version}`;
  context.progress(`${what} (npm, about ${cli.downloadMb} MB)`);
  const packed = runProgram(
    context.env,
    'npm',
    // npm must not run scripts of a package. Its own cache would keep the archive for ever. `--silent` would hide the
    // reason of a failure.
    [
      'pack',
      cli.package,
      '--loglevel=error',
      '--ignore-scripts',
      '--no-update-notifier',
      '--cache',
      join(folder, 'cache'),
    ],
    { cwd: folder, timeoutMs: DOWNLOAD_TIMEOUT_MS, reasonToEnd: (pid) => reasonToEnd(cli, folder, pid) },
  );
  const result = await reportGrowth(context.progress, what, { folder, expectedMb: cli.downloadMb }, packed);
  const archive = (await readdir(folder)).find((name) => name.endsWith('.tgz'));
  if (result.exitCode !== 0 || archive === undefined)
    throw new SetupError(
      `npm cannot download ${cli.package}:\n${withoutTrace(cutToLastLines(result, 40))}`,
      'Check npm’s registry and proxy (npm config list), and retry.',
    );
  return join(folder, archive);
}

/** A registry that sends without end would fill the disk, or the memory of npm, which holds the package. */
async function reasonToEnd(cli: AgentCli, folder: string, pid: number): Promise<string | null> {
  const taken = [
    { what: 'on the disk', bytes: await sizeBelow(folder), limitMib: cli.roomMib },
    { what: 'of memory', bytes: residentBytes(pid), limitMib: cli.roomMib + NPM_MIB },
  ].find(({ bytes, limitMib }) => bytes > limitMib * MIB);
  if (taken === undefined) return null;
  return `it has taken ${Math.floor(taken.bytes / MIB)} MiB ${taken.what} for a package of about ${cli.downloadMb} MB, and ${taken.limitMib} MiB are the most`;
}

function residentBytes(pid: number): number {
  try {
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}

/** Keeps npm's first lines, which name the problem, and drops the stack trace after them. */
function withoutTrace(text: string): string {
  const lines = text.split('\n');
  return lines.filter((line) => !/^npm error(?: {2,}| \}$)/.test(line)).join('\n');
}

/** Rejects a package that differs from the one with which this version of Voidbox was tested. */
async function checkIntegrity(cli: AgentCli, archive: string): Promise<void> {
  const hash = createHash('sha512');
  await pipeline(createReadStream(archive), hash);
  const found = `sha512-${hash.digest('base64')}`;
  if (found !== cli.integrity)
    throw new SetupError(
      `The file that npm downloaded for ${cli.package} is not that package: its hash is ${found}, but ${cli.integrity} is expected.`,
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
