/**
 * A bare repository of Voidbox in a temporary folder. No configuration of the user, the system or another repository
 * applies to it.
 */
import { existsSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type GitCall, type GitHost, readGitText } from './run-git.ts';

export interface PrivateRepository {
  readonly gitDir: string;
  /** A folder for files that do not belong in the repository. */
  readonly folder: string;
  text(args: readonly string[], call?: GitCall): Promise<string>;
}

/** Highest in precedence: no attribute of a tree or a folder names a program, or changes what a diff shows. */
const ATTRIBUTES = '* !filter !diff !merge !export-subst !export-ignore\n';

/** @returns the result of `work`, after it has removed the repository */
export async function withPrivateRepository<T>(
  host: GitHost,
  work: (repository: PrivateRepository) => Promise<T>,
): Promise<T> {
  const { remove, ...repository } = await makePrivateRepository(host);
  try {
    return await work(repository);
  } finally {
    await remove();
  }
}

/** Makes a repository as `withPrivateRepository` does, for callers that remove it themselves. */
export async function makePrivateRepository(host: GitHost): Promise<PrivateRepository & { remove(): Promise<void> }> {
  const folder = await mkdtemp(join(host.scratch ?? tmpdir(), `voidbox-git-${process.pid}-`));
  inUse.add(folder);
  const remove = async (): Promise<void> => {
    inUse.delete(folder);
    await rm(folder, { recursive: true, force: true });
  };
  try {
    const gitDir = join(folder, 'repository.git');
    await readGitText(host, ['init', '--quiet', '--bare', '--template=', '--object-format=sha1', gitDir], {
      env: { GIT_DIR: gitDir },
    });
    await mkdir(join(gitDir, 'info'), { recursive: true });
    await writeFile(join(gitDir, 'info', 'attributes'), ATTRIBUTES);
    return {
      gitDir,
      folder,
      text: (args, call = {}) => readGitText(host, args, { ...call, env: { GIT_DIR: gitDir, ...call.env } }),
      remove,
    };
  } catch (error) {
    await remove();
    throw error;
  }
}

/** The folders that this process uses. */
const inUse = new Set<string>();

/** No command of git takes this long: an older folder was left by a killed process, unless the process still lives. */
const LEFT_OVER_MS = 60 * 60_000;

/** Makes a folder for private repositories, and removes the repositories of killed processes from it. */
export function openScratch(scratch: string): void {
  mkdirSync(scratch, { recursive: true, mode: 0o700 });
  sweepScratch(scratch);
}

/** Removes the repositories of killed processes, if the folder exists. */
export function sweepScratch(scratch: string): void {
  if (!existsSync(scratch)) return;
  const before = Date.now() - LEFT_OVER_MS;
  for (const name of readdirSync(scratch)) {
    const path = join(scratch, name);
    const facts = statSync(path, { throwIfNoEntry: false });
    if (facts !== undefined && facts.mtimeMs < before && !isInUse(path, name))
      rmSync(path, { recursive: true, force: true });
  }
}

/** Reports whether the folder's process lives. A process that got the same pid later also keeps the folder. */
function isInUse(path: string, name: string): boolean {
  const pid = Number(/^voidbox-git-(\d+)-/.exec(name)?.[1] ?? 0);
  if (pid === 0 || pid === process.pid) return inUse.has(path);
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
