/** Packs the repositories that stages work in, as git bundles, and sends them to a service on another machine. */
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { readAllowedMounts } from '../../client/embedded/allowed-mounts.ts';
import { contains, resolveFrom } from '../../domain/language/text/paths.ts';
import type { Plan, WorkspaceSource } from '../../domain/plan/plan.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { findRepositoryAround } from '../../files/find-repository.ts';
import { findRepositoryProblem, packRepository } from '../../git/pack-repository.ts';
import { withPrivateRepository } from '../../git/private-repository.ts';
import { GitError, type GitHost } from '../../git/run-git.ts';
import { WorkspaceProblem } from '../../git/workspace-problem.ts';
import { AppError, createEnvironmentError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import { openGitScratch } from '../open-git-scratch.ts';
import { type MeasuredBlob, sendBlob, type SendTools } from './send-uploads.ts';

type Repository = Extract<WorkspaceSource, { readonly kind: 'folder' }>;

/**
 * Returns each repository once.
 * @throws AppError `cli/not-remote` if stages start from different states of one repository
 */
export function listRepositories({ stages }: Plan): readonly Repository[] {
  const byPath = new Map<string, Repository>();
  for (const { id, workspace } of stages) {
    if (workspace?.from.kind !== 'folder') continue;
    const { from } = workspace;
    const { path } = from.source;
    const known = byPath.get(path) ?? from;
    if (known.ref !== from.ref || known.includeDirty !== from.includeDirty)
      throw new AppError(
        'usage',
        'cli/not-remote',
        `stage ${id} works in ${sanitizeLine(path)} with another \`ref\` or \`include_dirty\` than an earlier stage, and one bundle of it is sent`,
        'Use the same `ref` and `include_dirty`, or name a clone of the repository.',
      );
    byPath.set(path, known);
  }
  return [...byPath.values()];
}

export interface RepositoryPlaces {
  readonly baseDir: string;
  /** Folders that the user allows for the command; absolute, links followed. */
  readonly allow: readonly string[];
}

/**
 * Checks the repositories before anything is asked or sent, as far as their format shows.
 * @throws AppError for a folder that cannot be packed
 */
export async function requireRepositories(
  repositories: readonly Repository[],
  places: RepositoryPlaces,
  { env }: Pick<Machine, 'env'>,
): Promise<void> {
  const mayRead = createPermission(places, env);
  for (const { source } of repositories) {
    const folder = findFolder(source.path, places);
    const problem = await findRepositoryProblem({ path: env.path, home: null }, { folder, mayRead }).catch(
      (error: unknown) => {
        throw toAppError(error);
      },
    );
    if (problem !== null) throw toAppError(new WorkspaceProblem(problem));
  }
}

function findFolder(path: string, { baseDir }: RepositoryPlaces): string {
  return realpathSync(resolveFrom(baseDir, path) ?? path);
}

/** @returns the hashes of the bundles, by the paths in the plan @throws AppError, ServiceError */
export async function sendRepositories(
  repositories: readonly Repository[],
  places: RepositoryPlaces,
  tools: SendTools & { readonly context: Machine },
): Promise<Readonly<Record<string, string>>> {
  return await packRepositories(repositories, places, tools.context, (path, bundle) =>
    sendBlob(path, () => Promise.resolve(bundle), tools),
  );
}

/** Reads the repositories, and sends nothing. @returns as `sendRepositories` does @throws AppError */
export async function measureRepositories(
  repositories: readonly Repository[],
  places: RepositoryPlaces,
  machine: Pick<Machine, 'env'>,
): Promise<Readonly<Record<string, string>>> {
  return await packRepositories(repositories, places, machine, (_path, { sha256 }) => Promise.resolve(sha256));
}

/** Uses a bundle, which is deleted afterwards. @returns its hash */
type UsePack = (path: string, bundle: MeasuredBlob) => Promise<string>;

/** @returns the hashes of the bundles, by the paths in the plan @throws AppError, and what `use` throws */
async function packRepositories(
  repositories: readonly Repository[],
  places: RepositoryPlaces,
  { env }: Pick<Machine, 'env'>,
  use: UsePack,
): Promise<Readonly<Record<string, string>>> {
  const scratch = openGitScratch(env.stateDir);
  const { HOME: home = null, XDG_CONFIG_HOME: configHome = null } = env.variables;
  const host: GitHost = { path: env.path, home, configHome: configHome || null, scratch };
  const mayRead = createPermission(places, env);
  const sent: [string, string][] = [];
  for (const repository of repositories) {
    const { path } = repository.source;
    const folder = findFolder(path, places);
    const { ref, includeDirty } = repository;
    const request = { folder, ref, includeDirty, mayRead };
    // The bundle is in the folder of a private repository, which is removed also if this process is killed.
    const sha256 = await withPrivateRepository(host, async (place) => {
      const file = join(place.folder, 'sent.bundle');
      const { bundle } = await packRepository(host, request, (bytes) => writeMeasured(file, bytes));
      return await use(path, bundle);
    }).catch((error: unknown) => {
      throw toAppError(error);
    });
    sent.push([path, sha256]);
  }
  return Object.fromEntries(sent);
}

/** Allows what a run of this machine may read: also the repository around the spec. */
function createPermission({ baseDir, allow }: RepositoryPlaces, env: Machine['env']): (path: string) => boolean {
  const around = findRepositoryAround(baseDir);
  const named = [baseDir, ...allow, ...readAllowedMounts(env.stateDir), ...(around === null ? [] : [around])];
  const roots = named.flatMap((root) => {
    try {
      return [realpathSync(root)];
    } catch {
      return [];
    }
  });
  return (path) => roots.some((root) => contains(root, path));
}

async function writeMeasured(file: string, bytes: AsyncIterable<Uint8Array>): Promise<MeasuredBlob> {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  async function* measure(): AsyncGenerator<Uint8Array> {
    for await (const chunk of bytes) {
      hash.update(chunk);
      sizeBytes += chunk.byteLength;
      yield chunk;
    }
  }
  await pipeline(measure(), createWriteStream(file, { mode: 0o600 }));
  return { sha256: hash.digest('hex'), sizeBytes, open: () => createReadStream(file) };
}

function toAppError(error: unknown): unknown {
  if (error instanceof WorkspaceProblem)
    return new AppError('usage', 'workspace/unusable', sanitizeLine(error.message));
  if (!(error instanceof GitError)) return error;
  if (error.reason === 'missing')
    return createEnvironmentError(
      'host/not-ready',
      'there is no program `git` on the PATH',
      'Install git, or add it to PATH.',
    );
  return new AppError('usage', 'workspace/unusable', sanitizeLine(error.message));
}
