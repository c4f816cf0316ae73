/**
 * Checks a plan's mounts on this host before a run starts. The worker checks them again, at admission and at each
 * launch of a VM.
 */
import { existsSync, realpathSync, statSync } from 'node:fs';
import { relative, resolve } from 'node:path';
import type { Plan } from '../../domain/plan/plan.ts';
import type { Environment } from '../../setup/environment.ts';
import { readAllowedMounts } from '../../client/embedded/allowed-mounts.ts';
import { type RefusedMount, findRefusedMounts } from '../../client/runs/refused-mounts.ts';
import type { WritableRepository } from '../../client/runs/writable-repositories.ts';
import { baseDirHint, findFromCwd } from './base-dir.ts';
import { createEnvironmentError, createUsageError } from '../app-error.ts';
import { type MountPlace, placeOfPath } from './load-spec.ts';
import { quoteArgument } from '../../domain/security/typed-argument.ts';

const MOUNTS = {
  option: '--allow-mounts',
  remedy: 'Name a folder of this host: runs may then mount it and all folders below it.',
} as const;

/**
 * Resolves the folders of an option that allows them.
 * @param about  the option and the remedy in an error
 * @returns absolute paths with links followed, so that a link that changes later allows nothing else
 * @throws AppError for a path that is not a folder
 */
export function resolveFolders(
  paths: readonly string[],
  cwd: string,
  about: { readonly option: string; readonly remedy: string } = MOUNTS,
): string[] {
  return paths.map((path) => {
    const full = resolve(cwd, path);
    const found = statSync(full, { throwIfNoEntry: false });
    if (found?.isDirectory() === true) return realpathSync(full);
    throw createUsageError(
      `${about.option}: \`${path}\` ${found === undefined ? 'does not exist' : 'is not a folder'}`,
      about.remedy,
    );
  });
}

/** @throws SetupError if the allowed mounts cannot be read */
export async function findMountsRefusedHere(
  plan: Plan,
  baseDir: string,
  env: Environment,
): Promise<readonly RefusedMount[]> {
  return await findRefusedMounts(plan, [baseDir, ...readAllowedMounts(env.stateDir)], baseDir);
}

export function codeOfRefusal({
  why,
}: RefusedMount): 'cli/mount-missing' | 'cli/mount-refused' | 'cli/workspace-subfolder' {
  return why === 'missing'
    ? 'cli/mount-missing'
    : why === 'subfolder'
      ? 'cli/workspace-subfolder'
      : 'cli/mount-refused';
}

export function describeRefusal(refused: RefusedMount, baseDir: string, cwd: string): string {
  const { hostPath, scopes, why, detail } = refused;
  const use = scopes.length === 0 ? 'works in the repository' : 'mounts';
  if (why === 'subfolder') return `the spec works in ${hostPath}, which is a folder of the repository ${detail}`;
  if (why === 'missing') {
    const beside = findFromCwd(hostPath, baseDir, cwd);
    const where = beside === null ? '' : `; it is only below the working directory: ${beside}`;
    return `the spec ${use} ${hostPath}, which cannot be read: ${detail}${where}`;
  }
  const leads = detail === hostPath ? '' : `, which leads to ${detail}`;
  return `the spec ${use} ${hostPath}${leads}; it is neither below the spec's folder nor allowed on this host`;
}

export function describeWritableRepository({ hostPath, git }: WritableRepository): {
  readonly message: string;
  readonly remedy: string;
} {
  return git === 'writable'
    ? {
        message: `the spec mounts the repository ${hostPath} with \`git: writable\`: the next git command here, also \`git status\`, can run programs that a stage chose`,
        remedy: 'remove `git: writable`, or use `workspace`, which brings changes back as a patch',
      }
    : {
        message: `the spec mounts the repository ${hostPath} with \`mode: rw\`: changes of a stage in \`.git\`, such as a commit, are not copied back`,
        remedy:
          'use `workspace`, which brings commits and files back as a patch; files outside of `.git` are copied back',
      };
}

/** The command repeats the folders that are already allowed, because the folders given to `up` replace them. */
export function suggestRefusalRemedy(refused: RefusedMount, baseDir: string, env: Environment, cwd: string): string {
  const { scopes, why, detail } = refused;
  if (why === 'missing') {
    const key = scopes.length === 0 ? '`git` of the workspace' : '`host` of the mount';
    const start = `relative paths start from the spec's folder, ${baseDir}`;
    const beside = findFromCwd(refused.hostPath, baseDir, cwd);
    return beside === null ? `Create it, or correct ${key}; ${start}` : `Move ${beside} there, or ${baseDirHint(cwd)}`;
  }
  if (why === 'subfolder') {
    const top = relative(realPathOf(baseDir), detail) || '.';
    const git = top.startsWith('../..') ? detail : top;
    return `Name the top folder and the folder in it: workspace: { git: ${git}, subfolder: ${relative(detail, realPathOf(refused.hostPath))} }`;
  }
  return `Move it below the spec's folder, ${baseDir}, or allow it: ${allowCommand(env, [detail])}`;
}

function realPathOf(path: string): string {
  return existsSync(path) ? realpathSync(path) : path;
}

function allowCommand(env: Environment, more: readonly string[]): string {
  return `voidbox up --allow-mounts ${[...readAllowedMounts(env.stateDir), ...more].map(quoteArgument).join(' ')}`;
}

export interface MountsOfRun {
  readonly plan: Plan;
  readonly baseDir: string;
  /** As `resolveFolders` returns them. */
  readonly allow: readonly string[];
  readonly cwd: string;
  /** The places in the spec that name the mounts, by full path. */
  readonly places: ReadonlyMap<string, MountPlace>;
}

/**
 * Refuses the mounts that admission would refuse, so that a mistake costs no run.
 * @throws AppError `cli/mount-missing`, `cli/mount-refused`, `cli/workspace-subfolder`
 */
export async function settleMounts(
  { plan, baseDir, allow, cwd, places }: MountsOfRun,
  env: Environment,
): Promise<void> {
  const [refused] = await findRefusedMounts(plan, [baseDir, ...readAllowedMounts(env.stateDir), ...allow], baseDir);
  if (refused !== undefined)
    throw createEnvironmentError(
      codeOfRefusal(refused),
      `${placeOfPath(places, refused.hostPath)}${describeRefusal(refused, baseDir, cwd)}`,
      suggestRefusalRemedy(refused, baseDir, env, cwd),
    );
}
