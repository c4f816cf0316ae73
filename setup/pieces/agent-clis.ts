/**
 * The command lines of agents. Each is an npm package that is fetched when a run first needs it, and is never
 * redistributed.
 */
import { mkdir, symlink } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { type CacheFolder, ensureCacheFolder, findCacheFolder, hashInputs } from '../cache/cache.ts';
import { isExecutable } from './find-program.ts';
import { allowEveryReader, findNpmBlocker, type NpmPackage, unpackNpmPackage } from './npm-package.ts';
import type { FoundPiece, Piece, SetupContext } from './piece.ts';
import { SetupError } from '../setup-error.ts';

/** Part of the cache key. It must grow whenever the same package produces another folder. */
const RECIPE = '1';

export interface AgentCli extends Omit<NpmPackage, 'label'> {
  /** The name of the piece, and of the program in `bin/`. */
  readonly name: 'claude' | 'codex';
  /** The program in the package. */
  readonly program: string;
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
    blocker: (context) => Promise.resolve(findNpmBlocker(context, labelPackage(cli))),
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

function labelPackage(cli: AgentCli): NpmPackage {
  return { ...cli, label: `the ${cli.name} command line` };
}

async function getCli(context: SetupContext, cli: AgentCli): Promise<FoundPiece> {
  const blocker = findNpmBlocker(context, labelPackage(cli));
  if (blocker !== null) throw blocker;
  const path = await ensureCacheFolder(
    cacheFolder(context, cli),
    (into) => makeFolder(context, cli, into),
    () => context.progress(`waiting for another set-up to get the ${cli.name} command line`),
  );
  return { path, version: cli.version, from: 'cache' };
}

async function makeFolder(context: SetupContext, cli: AgentCli, into: string): Promise<void> {
  await unpackNpmPackage(context, labelPackage(cli), into);
  const program = join(into, 'package', cli.program);
  if (!isExecutable(program)) throw new SetupError(`The package ${cli.package} holds no program ${cli.program}.`, null);
  const bin = join(into, 'bin');
  await mkdir(bin);
  await symlink(relative(bin, program), join(bin, cli.name));
  // A VMM runs as another user.
  await allowEveryReader(context, into);
}
