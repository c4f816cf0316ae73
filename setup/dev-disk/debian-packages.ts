/**
 * Packages of a Debian suite that differs from the machine's own: resolves a list with all dependencies from a mirror's
 * current index.
 */
import { createHash } from 'node:crypto';
import { createReadStream, existsSync } from 'node:fs';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { hasNoSpace, reasonOfFullDisk } from '../cache/free-space.ts';
import { reportGrowth } from '../long-work.ts';
import type { SetupContext } from '../pieces/piece.ts';
import { cutToLastLines, type ProgramResult, runProgram } from '../pieces/run-program.ts';
import { SetupError } from '../setup-error.ts';

/** Suites, the newest first; an older mirror may have only the second. */
const SUITES = ['trixie', 'bookworm'] as const;
export type Suite = (typeof SUITES)[number];
/** Debian's own name for its mirrors, for machines whose apt is not configured with a mirror. */
const DEFAULT_MIRROR = 'http://deb.debian.org/debian';
export const DEBIAN_KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg';
const UPDATE_TIMEOUT_MS = 180_000;
const RESOLVE_TIMEOUT_MS = 60_000;
const DOWNLOAD_TIMEOUT_MS = 1_200_000;
const DOWNLOAD_MB = 90;

export interface LockedPackage {
  readonly name: string;
  readonly version: string;
  /** The hash of the package's file. */
  readonly sha256: string;
}

export interface PackageLock {
  readonly suite: Suite;
  /** Sorted by name. */
  readonly packages: readonly LockedPackage[];
}

/** Options that make apt use this source instead of the machine's own state. */
export interface PackageSource {
  readonly suite: Suite;
  readonly options: readonly string[];
}

/** @throws Error if the text is not a lock */
export function parseLock(text: string): PackageLock {
  const value: unknown = JSON.parse(text);
  const isRecord = (one: unknown): one is Record<string, unknown> => typeof one === 'object' && one !== null;
  const isLocked = (one: unknown): boolean =>
    isRecord(one) && [one['name'], one['version'], one['sha256']].every((part) => typeof part === 'string');
  if (!isRecord(value) || !SUITES.includes(value['suite'] as Suite) || !Array.isArray(value['packages']))
    throw new Error('not a lock of packages');
  if (!value['packages'].every(isLocked)) throw new Error('a package of the lock has no name, version or sha256');
  return value as unknown as PackageLock;
}

/**
 * Parses a list of names, one on each line; `#` begins a comment.
 * @throws SetupError for a line that is not a package name
 */
export function parsePackageList(text: string, file: string): readonly string[] {
  return text.split('\n').flatMap((line, index) => {
    const name = line.replace(/#.*/, '').trim();
    if (name === '') return [];
    if (/^[a-z0-9][a-z0-9+.-]+$/.test(name)) return [name];
    throw new SetupError(
      `${file}:${index + 1}: ${JSON.stringify(name.slice(0, 80))} is not the name of a Debian package.`,
      'Write one name a line, without a version.',
    );
  });
}

/** Opens the newest suite that the machine's mirror has, and reads its index into `folder`. */
export async function openPackageSource(context: SetupContext, folder: string): Promise<PackageSource> {
  const mirror = await findMirror(context);
  const failures: string[] = [];
  for (const suite of SUITES) {
    const options = await writeSource(folder, mirror, suite);
    context.progress(`reading the package index of Debian ${suite}`);
    const result = await runProgram(context.env, 'apt-get', [...options, '-qq', 'update'], {
      timeoutMs: UPDATE_TIMEOUT_MS,
      reasonToEnd: () => reasonOfFullDisk(folder),
    });
    // If a mirror has no such suite, apt exits with 0 but writes no index.
    if (result.exitCode === 0 && (await hasIndex(folder, suite))) return { suite, options };
    failures.push(`${suite}: ${cutToLastLines(result, 3)}`);
    // The next suite would also find no space.
    if (hasNoSpace(folder)) break;
  }
  throw new SetupError(
    `No mirror has Debian ${SUITES.join(' or ')} (${mirror}):\n${failures.join('\n')}`,
    'Fix the apt sources or the network and retry.',
  );
}

/** Returns the mirror of Debian in the configuration of this machine's apt. */
async function findMirror(context: SetupContext): Promise<string> {
  const format = '$(SITE) $(RELEASE) $(COMPONENT)';
  const { stdout } = await runProgram(context.env, 'apt-get', [
    'indextargets',
    '--format',
    format,
    'Created-By: Packages',
  ]);
  const suites = /^(?:stable|oldstable|testing|sid|bullseye|bookworm|trixie|forky)$/;
  for (const line of stdout.split('\n')) {
    const [site = '', release = '', component = ''] = line.split(' ');
    if (suites.test(release) && component === 'main' && /^https?:\/\/[!-~]+$/.test(site)) return site;
  }
  return DEFAULT_MIRROR;
}

/**
 * Writes an empty status, so that no package counts as installed. Apt reads only this source, because another one could
 * replace a package.
 */
async function writeSource(folder: string, mirror: string, suite: Suite): Promise<readonly string[]> {
  const base = join(folder, suite);
  for (const name of ['state/lists/partial', 'cache/archives/partial', 'etc'])
    await mkdir(join(base, name), { recursive: true });
  await writeFile(join(base, 'status'), '');
  await writeFile(join(base, 'etc', 'sources.list'), `deb [signed-by=${DEBIAN_KEYRING}] ${mirror} ${suite} main\n`);
  return Object.entries({
    'Dir::State': join(base, 'state'),
    'Dir::State::status': join(base, 'status'),
    'Dir::Cache': join(base, 'cache'),
    'Dir::Etc::sourcelist': join(base, 'etc', 'sources.list'),
    'Dir::Etc::sourceparts': '/dev/null',
    'Dir::Etc::preferences': '/dev/null',
    'Dir::Etc::preferencesparts': '/dev/null',
    'APT::Architecture': 'amd64',
    'APT::Architectures': 'amd64',
    'APT::Sandbox::User': 'root',
    'Acquire::Languages': 'none',
    'Acquire::Retries': '3',
  }).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
}

async function hasIndex(folder: string, suite: Suite): Promise<boolean> {
  const names = await readdir(join(folder, suite, 'state', 'lists')).catch(() => []);
  return names.some((name) => name.includes('_Packages'));
}

/** Resolves the names with all dependencies, and returns `name=version`, sorted. */
export async function resolvePackages(
  context: SetupContext,
  source: PackageSource,
  names: readonly string[],
): Promise<readonly string[]> {
  const result = await runProgram(
    context.env,
    'apt-get',
    [...source.options, 'install', '--simulate', '--no-install-recommends', ...names],
    { timeoutMs: RESOLVE_TIMEOUT_MS },
  );
  const found = [...result.stdout.matchAll(/^Inst (\S+) \((\S+) /gm)].map(([, name, version]) => `${name}=${version}`);
  if (result.exitCode !== 0 || found.length === 0)
    throw new SetupError(
      `apt cannot resolve the packages of the dev image in Debian ${source.suite}:\n${cutToLastLines(result)}`,
      'Remove the packages that it names from your list, or fix the apt sources.',
    );
  return found.sort();
}

/** Returns packages of the lock that the mirror's index no longer has, as `name=version`. */
export async function findMissingPackages(
  context: SetupContext,
  source: PackageSource,
  lock: PackageLock,
): Promise<readonly string[]> {
  const wanted = lock.packages.map(({ name, version }) => `${name}=${version}`);
  if (source.suite !== lock.suite) return wanted;
  // It fails if one name is unknown, but still prints the others.
  const names = lock.packages.map(({ name }) => name);
  const { stdout } = await runProgram(context.env, 'apt-cache', [...source.options, 'show', ...names], {
    timeoutMs: RESOLVE_TIMEOUT_MS,
  });
  const offered = new Set(
    [...stdout.matchAll(/^Package: (\S+)$[\s\S]*?^Version: (\S+)$/gm)].map(([, name, version]) => `${name}=${version}`),
  );
  return wanted.filter((one) => !offered.has(one));
}

/** Downloads into the folder, checks against the signed index, and returns the files by package with their hashes. */
export async function downloadPackages(
  context: SetupContext,
  source: PackageSource,
  wanted: readonly string[],
  folder: string,
): Promise<readonly LockedPackage[]> {
  await mkdir(folder, { recursive: true });
  const what = `downloading ${wanted.length} packages of Debian ${source.suite} for the dev image`;
  context.progress(`${what} (about ${DOWNLOAD_MB} MB)`);
  const downloading = runProgram(context.env, 'apt-get', [...source.options, '-qq', 'download', ...wanted], {
    cwd: folder,
    timeoutMs: DOWNLOAD_TIMEOUT_MS,
    reasonToEnd: () => reasonOfFullDisk(folder),
  });
  const result = await reportGrowth(context.progress, what, { folder, expectedMb: DOWNLOAD_MB }, downloading);
  if (result.exitCode !== 0) throw downloadFailed(result);
  const packages: LockedPackage[] = [];
  for (const one of wanted) {
    const [name = '', version = ''] = one.split('=');
    const path = packageFile(folder, name, version);
    if (path === null) throw downloadFailed(result);
    packages.push({ name, version, sha256: await sha256Of(path) });
  }
  return packages;
}

function downloadFailed(result: ProgramResult): SetupError {
  return new SetupError(
    `apt cannot download the packages of the dev image:\n${cutToLastLines(result)}`,
    'Fix the apt sources or the network and retry.',
  );
}

/** Returns the file of a package under apt's name, in which the colon of an epoch is escaped. */
export function packageFile(folder: string, name: string, version: string): string | null {
  const paths = ['amd64', 'all'].map((arch) => join(folder, `${name}_${version.replaceAll(':', '%3a')}_${arch}.deb`));
  return paths.find((path) => existsSync(path)) ?? null;
}

async function sha256Of(path: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  return hash.digest('hex');
}

/** @throws SetupError if the mirror's file differs from the lock */
export function checkAgainstLock(found: readonly LockedPackage[], lock: PackageLock): void {
  const locked = new Map(lock.packages.map((one) => [one.name, one]));
  for (const { name, version, sha256 } of found) {
    const expected = locked.get(name)?.sha256;
    if (sha256 !== expected)
      throw new SetupError(
        `The mirror's ${name} ${version} is not the package that the dev image is locked to: its SHA-256 is ${sha256}, and ${expected ?? 'none'} is expected.`,
        'Use a mirror that carries Debian as it was published.',
      );
  }
}
