/** Downloads Debian packages, checked by apt's signed index. */
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { findOnPath } from './find-program.ts';
import type { SetupContext } from './piece.ts';
import { cutToLastLines, runProgram } from './run-program.ts';
import { SetupError } from '../setup-error.ts';

const SYSTEM_LISTS = '/var/lib/apt/lists';
const UPDATE_TIMEOUT_MS = 180_000;
const DOWNLOAD_TIMEOUT_MS = 600_000;

export function hasApt(context: SetupContext): boolean {
  return findOnPath(context.env, ['apt-get']).length > 0 && findOnPath(context.env, ['dpkg-deb']).length > 0;
}

/**
 * Returns the options with which apt reads an index: the system's index if it exists, otherwise an index of Voidbox
 * that needs no root.
 */
async function indexOptions(context: SetupContext): Promise<string[]> {
  // Root's downloads go to the cache, which apt's own user may not write.
  const common = ['-o', 'APT::Sandbox::User=root', '-o', 'Acquire::Retries=3'];
  if (isRoot()) {
    if (!(await hasLists(SYSTEM_LISTS))) await update(context, common);
    return common;
  }
  if (await hasLists(SYSTEM_LISTS)) return common;
  return ownIndex(context, common);
}

async function ownIndex(context: SetupContext, common: readonly string[]): Promise<string[]> {
  const folder = join(context.env.cacheDir, 'apt');
  for (const name of ['state/lists/partial', 'cache/archives/partial'])
    await mkdir(join(folder, name), { recursive: true });
  const options = [
    ...common,
    '-o',
    `Dir::State=${join(folder, 'state')}`,
    '-o',
    'Dir::State::status=/var/lib/dpkg/status',
    '-o',
    `Dir::Cache=${join(folder, 'cache')}`,
  ];
  if (!(await hasLists(join(folder, 'state', 'lists')))) await update(context, options);
  return options;
}

export function isRoot(): boolean {
  return process.getuid?.() === 0;
}

async function hasLists(folder: string): Promise<boolean> {
  return (await readdir(folder).catch(() => [])).some((name) => /_Packages(?:\.|$)/.test(name));
}

async function update(context: SetupContext, options: readonly string[]): Promise<void> {
  context.progress('reading the package index (apt-get update)');
  const result = await runProgram(context.env, 'apt-get', [...options, '-qq', 'update'], {
    timeoutMs: UPDATE_TIMEOUT_MS,
  });
  if (result.exitCode !== 0)
    throw new SetupError(
      `apt-get update failed:\n${cutToLastLines(result)}`,
      'Fix the apt sources or the network and retry.',
    );
}

/**
 * Returns names of packages that match an extended regular expression of apt.
 * @throws SetupError if apt cannot search
 */
export async function searchPackages(context: SetupContext, pattern: string): Promise<string[]> {
  const args = [...(await indexOptions(context)), 'search', '--names-only', pattern];
  // After a change of the lists, apt makes its cache again, which takes a minute on a busy machine.
  const result = await runProgram(context.env, 'apt-cache', args, { timeoutMs: UPDATE_TIMEOUT_MS });
  if (result.exitCode !== 0)
    throw new SetupError(
      `apt-cache search failed:\n${cutToLastLines(result)}`,
      'Fix the error of apt above and retry.',
    );
  return result.stdout.split('\n').flatMap((line) => line.split(' ')[0] || []);
}

/**
 * Downloads the package into the folder, checked against the signed index, and unpacks it to `into` without installing it.
 * @param source  options of apt for an index that was read; without them, the machine's own index is used
 */
export async function unpackPackage(
  context: SetupContext,
  name: string,
  into: string,
  source: readonly string[] | null = null,
): Promise<void> {
  const downloads = `${into}.deb`;
  await mkdir(downloads, { recursive: true });
  await mkdir(into, { recursive: true });
  try {
    await download(context, name, downloads, source);
    const file = (await readdir(downloads)).find((entry) => entry.endsWith('.deb'));
    if (file === undefined)
      throw new SetupError(`apt-get download ${name} left no package.`, `Try \`apt-get download ${name}\` by hand.`);
    const result = await runProgram(context.env, 'dpkg-deb', ['-x', join(downloads, file), into], {
      timeoutMs: DOWNLOAD_TIMEOUT_MS,
    });
    if (result.exitCode !== 0)
      throw new SetupError(
        `dpkg-deb can't unpack ${file}:\n${cutToLastLines(result)}`,
        'Check the free space of the cache folder.',
      );
  } finally {
    await rm(downloads, { recursive: true, force: true });
  }
}

async function download(
  context: SetupContext,
  name: string,
  folder: string,
  source: readonly string[] | null,
): Promise<void> {
  const args = async (options: Promise<readonly string[]> | readonly string[]): Promise<string[]> => [
    ...(await options),
    '-qq',
    'download',
    name,
  ];
  const first = await runProgram(context.env, 'apt-get', await args(source ?? indexOptions(context)), {
    cwd: folder,
    timeoutMs: DOWNLOAD_TIMEOUT_MS,
  });
  if (first.exitCode === 0) return;
  if (source !== null)
    throw new SetupError(
      `apt can't download ${name}:\n${cutToLastLines(first)}`,
      'Fix the apt sources or the network and retry.',
    );
  // An index that is older than the archive names files that no longer exist, so it is read again once.
  const fresh = isRoot() ? await refreshSystemIndex(context) : await ownIndex(context, []);
  const second = await runProgram(context.env, 'apt-get', await args(fresh), {
    cwd: folder,
    timeoutMs: DOWNLOAD_TIMEOUT_MS,
  });
  if (second.exitCode !== 0)
    throw new SetupError(
      `apt can't download ${name}:\n${cutToLastLines(second)}`,
      'Fix the apt sources or the network and retry.',
    );
}

async function refreshSystemIndex(context: SetupContext): Promise<string[]> {
  await update(context, []);
  return indexOptions(context);
}
