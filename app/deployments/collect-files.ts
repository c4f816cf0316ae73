/** The files of this machine that a spec needs: parts, listed files, mounts, agent skills and images. */
import { realpathSync } from 'node:fs';
import { dirname, relative } from 'node:path';
import { contains, resolveFrom } from '../../domain/language/text/paths.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import { skillsOf } from '../../domain/plan/work.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { listSpecFolders } from '../../files/find-repository.ts';
import { AppError } from '../app-error.ts';
import type { PackFilter } from '../control/pack-folder.ts';

export interface CollectedFiles {
  /** The absolute path of the folder that is packed. */
  readonly root: string;
  /** The folder of the spec in it; empty: `root` itself. */
  readonly specDir: string;
  /** Chooses the entries of `root`. */
  readonly isPacked: PackFilter;
  /** Whether the spec needs a file. */
  readonly hasFiles: boolean;
}

/**
 * @param read  absolute paths of the files that compiling read
 * @param allowed  folders that the owner allowed the deployment to mount from the host; they are not sent
 * @throws AppError `cli/not-remote` for a file outside of the spec's folder and of the repository around it
 */
export function collectFiles(
  plan: Plan,
  read: readonly string[],
  { baseDir, allowed }: { readonly baseDir: string; readonly allowed: readonly string[] },
): CollectedFiles {
  const named = [...read, ...listMounted(plan, baseDir), ...listSkills(plan, baseDir), ...listImages(plan)];
  const sent = [...new Set(named)].filter((path) => !allowed.some((folder) => contains(folder, path)));
  const folders = listSpecFolders(baseDir);
  for (const path of sent) if (!folders.some((folder) => contains(findReal(folder), findReal(path)))) refuse(path);
  const root = sent.reduce((above, path) => findCommonFolder(above, path), baseDir);
  const wanted = sent.map((path) => relative(root, path));
  return {
    root,
    specDir: relative(root, baseDir),
    hasFiles: sent.length > 0,
    isPacked: (path) =>
      wanted.some((each) => each === '' || contains(`/${each}`, `/${path}`) || contains(`/${path}`, `/${each}`)),
  };
}

function listMounted({ scopes }: Plan, baseDir: string): readonly string[] {
  return scopes.flatMap(({ sandbox }) =>
    sandbox.mounts.map(({ source }) => resolveFrom(baseDir, source.path) ?? source.path),
  );
}

function listSkills({ stages }: Plan, baseDir: string): readonly string[] {
  return stages.flatMap(({ work }) =>
    skillsOf(work).flatMap((skill) => (skill.kind === 'file' ? [resolveFrom(baseDir, skill.source.path) ?? ''] : [])),
  );
}

function listImages({ scopes }: Plan): readonly string[] {
  return scopes.flatMap(({ sandbox }) => {
    const image = sandbox.mode === 'mock' ? undefined : sandbox.needs?.image;
    return image?.startsWith('/') === true ? [image] : [];
  });
}

function findCommonFolder(folder: string, path: string): string {
  let above = folder;
  while (!contains(above, path)) above = dirname(above);
  return above;
}

function findReal(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    // The check of the spec reports a file that is missing.
    return path;
  }
}

function refuse(path: string): never {
  throw new AppError(
    'usage',
    'cli/not-remote',
    `the spec names ${sanitizeLine(path)}, which is neither in its folder nor in the repository around it, and is not sent`,
    'Move it there. Or, as the owner of the service, let the deployment mount it from the host: voidbox deploy FILE --allow-mounts FOLDER',
  );
}
