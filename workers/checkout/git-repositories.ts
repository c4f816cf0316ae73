/**
 * Implements the `Repositories` port with git of this host. Temporary repositories are in the state folder, whose disk
 * is watched.
 */
import { join } from 'node:path';
import { Readable } from 'node:stream';
import type { ArtifactStore } from '../../activities/ports/artifacts.ts';
import type { Refusal, Repositories } from '../../activities/ports/repositories.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { DataRef } from '../../domain/plan/plan.ts';
import { indexBase } from '../../git/base-bundle.ts';
import { readLeftFiles } from './left-files.ts';
import { writeCheckout } from './tar.ts';
import { importFiles } from '../../git/commit-files.ts';
import { fetchRepository } from '../../git/fetch-repository.ts';
import { importChanges, RefusedChanges } from '../../git/import-changes.ts';
import { packRepository, type Packed } from '../../git/pack-repository.ts';
import { planCheckout } from './plan-checkout.ts';
import { openScratch, sweepScratch, withPrivateRepository } from '../../git/private-repository.ts';
import { GitError, type GitHost } from '../../git/run-git.ts';
import { WorkspaceProblem } from '../../git/workspace-problem.ts';

export interface GitRepositoriesOptions {
  readonly artifacts: ArtifactStore;
  readonly stateDir: string;
  /** The PATH that git is looked up in. */
  readonly path: string;
  /** The home folder of the user whose credentials fetch repositories; null: no credentials. */
  readonly home: string | null;
  /** See `GitHost`. */
  readonly configHome?: string | null;
}

export function createGitRepositories({
  artifacts,
  stateDir,
  path,
  home,
  configHome = null,
}: GitRepositoriesOptions): Repositories {
  const scratch = join(stateDir, 'git');
  sweepScratch(scratch);
  const host = (): GitHost => {
    openScratch(scratch);
    return { path, home, configHome, scratch };
  };
  const store = (bytes: AsyncIterable<Uint8Array>): Promise<DataRef> =>
    artifacts.put(bytes, 'application/x-git-bundle');
  return {
    pack: (repository, signal) =>
      returnRefusals(async () => {
        const packed: Packed<DataRef> =
          repository.kind === 'url'
            ? await fetchRepository(host(), { url: repository.url, ref: repository.ref, signal }, store)
            : await packRepository(host(), { ...repository, signal }, store);
        return packed;
      }),
    index: (bundle, signal) =>
      returnRefusals(() => {
        const of = { ...host(), signal };
        const store = (bytes: AsyncIterable<Uint8Array>) => artifacts.put(bytes, 'application/x-git-index');
        return withPrivateRepository(of, async (repository) => {
          const indexed = await indexBase(of, repository, artifacts.open(bundle), store);
          const planned = await planCheckout(of, repository, indexed.base);
          return { ...indexed, checkout: 'unfit' in planned ? null : await store(Readable.from([planned.index])) };
        });
      }),
    async *checkOut({ base, indexed, gitFiles, nowMs }, signal) {
      const { headerBytes, index, checkout } = indexed;
      yield* writeCheckout(
        { ...host(), signal },
        {
          pack: { sizeBytes: base.sizeBytes - headerBytes, open: () => artifacts.open(base, headerBytes) },
          packIndex: { sizeBytes: index.sizeBytes, open: () => artifacts.open(index) },
          index: await bytesOf(artifacts.open(checkout)),
          gitFiles,
          nowS: Math.floor(nowMs / 1_000),
        },
      );
    },
    takeChanges: ({ base, earlier, pack, commit }, signal) =>
      returnRefusals(async () => {
        const request = {
          base: artifacts.open(base),
          earlier: earlier === null ? null : artifacts.open(earlier),
          pack,
          commit,
        };
        return await importChanges({ ...host(), signal }, request, (bytes, mediaType) =>
          artifacts.put(bytes, mediaType),
        );
      }),
    takeFiles: ({ base, tar, message }, signal) =>
      returnRefusals(() => {
        const request = { base: artifacts.open(base), files: readLeftFiles(tar), message };
        return importFiles({ ...host(), signal }, request, (bytes, mediaType) => artifacts.put(bytes, mediaType));
      }),
  };
}

async function bytesOf(stream: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts);
}

/** Returns an error that a user can repair as an answer; throws every other error. */
async function returnRefusals<T>(work: () => Promise<T>): Promise<T | Refusal> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof WorkspaceProblem || error instanceof RefusedChanges) return { problem: error.message };
    if (error instanceof GitError && error.reason === 'missing')
      throw new CodedError('host/not-ready', 'the worker finds no program `git` on its PATH: install git on this host');
    throw error;
  }
}
