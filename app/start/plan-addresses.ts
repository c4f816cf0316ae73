/** Repositories of the network that a plan fetches. Git does so with the user's login, so the user decides. */
import { join } from 'node:path';
import { allowsGitPlace, readAllowedPlace, toGitPlace, toRemotePlace } from '../../domain/plan/git-place.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { findRepositoryAround } from '../../files/find-repository.ts';
import { FileRefusal, readFileWithin } from '../../files/open-file.ts';
import { readOrigin } from '../../git/read-origin.ts';
import { createEnvironmentError, createUsageError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import { quoteArgument } from '../../domain/security/typed-argument.ts';

/** The size limit of a repository's configuration. */
const CONFIG_BYTES = 1024 * 1024;

/** Reads the values of `--allow-git`. @returns places, as `readAllowedPlace` does @throws AppError */
export function parsePlaces(texts: readonly string[]): readonly string[] {
  return texts.map((text) => {
    const place = readAllowedPlace(text.replace(/^https:\/\//i, ''));
    if (place !== null) return place;
    throw createUsageError(
      `--allow-git: \`${sanitizeLine(text)}\` is not HOST/PATH${text.includes('*') ? ': `*` is not a pattern' : ''}`,
      'Name a repository, or a path above repositories: --allow-git github.com/acme/app',
    );
  });
}

export interface UnknownAddress {
  readonly stage: string;
  readonly url: string;
  /** Null: no option allows it. */
  readonly place: string | null;
}

/** Addresses that are neither allowed nor the origin of the repository that holds the spec, each once. */
export async function findUnknownAddresses(
  { stages }: Plan,
  baseDir: string,
  allowed: readonly string[],
  env: Pick<Machine['env'], 'path'>,
): Promise<readonly UnknownAddress[]> {
  const found = new Map<string, UnknownAddress>();
  for (const { id, workspace } of stages)
    if (workspace?.from.kind === 'url' && !found.has(workspace.from.url)) {
      const { url } = workspace.from;
      found.set(url, { stage: id, url, place: toGitPlace(url) });
    }
  if (found.size === 0) return [];
  const origin = await findOrigin(baseDir, env);
  const known = origin === null ? allowed : [...allowed, origin];
  return [...found.values()].filter(({ place }) => place === null || !allowsGitPlace(known, place));
}

/** The place of the repository that the one which holds the spec was cloned from; null: unknown. */
export async function findOrigin(baseDir: string, { path }: Pick<Machine['env'], 'path'>): Promise<string | null> {
  const repository = findRepositoryAround(baseDir);
  if (repository === null) return null;
  try {
    const config = readFileWithin(join(repository, '.git', 'config'), { roots: [repository], mostBytes: CONFIG_BYTES });
    const origin = await readOrigin({ path, home: null }, config);
    return origin === null ? null : toRemotePlace(origin);
  } catch (error) {
    // `.git` of a linked working tree is a file; then `run` asks the user.
    if (error instanceof FileRefusal) return null;
    throw error;
  }
}

export function describeUnknownAddress({ stage, url, place }: UnknownAddress): { message: string; remedy: string } {
  const shown = sanitizeLine(url);
  return place === null
    ? {
        message: `the workspace of stage ${stage} is ${shown}, which has \`..\`, an encoded dot or slash, or a query, so the server could serve another repository`,
        remedy: 'write the URL as the server shows it: https://HOST/PATH',
      }
    : {
        message: `stage ${stage} fetches ${shown} with your git login; it is not the origin of the repository that holds the spec`,
        remedy: `allow it: --allow-git ${quoteArgument(place)}`,
      };
}

export interface AddressesOfRun {
  readonly plan: Plan;
  readonly baseDir: string;
  /** The places that `parsePlaces` returns, and the places of the earlier run. */
  readonly allow: readonly string[];
  /** The person may be asked for an address. */
  readonly mayAsk: boolean;
}

/**
 * Asks for each address that the user has not allowed.
 * @returns all places that the run may fetch
 * @throws AppError `cli/git-refused`
 */
export async function settleAddresses(
  { plan, baseDir, allow, mayAsk }: AddressesOfRun,
  context: Machine,
): Promise<readonly string[]> {
  const origin = plan.stages.some(({ workspace }) => workspace?.from.kind === 'url')
    ? await findOrigin(baseDir, context.env)
    : null;
  const allowed = origin === null ? [...allow] : [...allow, origin];
  for (const unknown of await findUnknownAddresses(plan, baseDir, allowed, context.env)) {
    const { message, remedy } = describeUnknownAddress(unknown);
    const answer = unknown.place === null || !mayAsk ? null : await context.confirm(`${message}. Fetch it?`);
    if (unknown.place === null || answer !== true)
      throw createEnvironmentError(
        'cli/git-refused',
        message,
        remedy.replace(/^./, (letter) => letter.toUpperCase()),
      );
    allowed.push(unknown.place);
  }
  return allowed;
}
