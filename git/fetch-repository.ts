/** A repository of another machine, fetched by git of the host, which logs in as the user does. Its credentials reach no guest. */
import { writeBase } from './base-bundle.ts';
import { type Packed, WorkspaceProblem } from './pack-repository.ts';
import { withPrivateRepository } from './private-repository.ts';
import { GitError, type GitHost } from './run-git.ts';

const FETCH_TIMEOUT_MS = 10 * 60_000;

export async function fetchRepository<T>(
  host: GitHost,
  { url, ref, signal }: { readonly url: string; readonly ref: string | null; readonly signal?: AbortSignal },
  store: (bytes: AsyncIterable<Uint8Array>) => Promise<T>,
  /** For tests, which have no server with a certificate. */
  protocol: 'https' | 'file' = 'https',
): Promise<Packed<T>> {
  if (!url.startsWith(`${protocol}://`))
    throw new WorkspaceProblem(`${JSON.stringify(url)} does not begin with https://`);
  return await withPrivateRepository(host, [], async (repository) => {
    const args = ['fetch', '--quiet', '--no-tags', '--no-recurse-submodules', '--no-write-fetch-head'];
    const refspec = `+${ref ?? 'HEAD'}:refs/voidbox/fetched`;
    try {
      await repository.text([...args, '--end-of-options', url, refspec], {
        env: { GIT_ALLOW_PROTOCOL: protocol },
        withUserConfig: true,
        timeoutMs: FETCH_TIMEOUT_MS,
        ...(signal === undefined ? {} : { signal }),
      });
    } catch (error) {
      if (error instanceof GitError && error.reason === 'failed')
        throw new WorkspaceProblem(`${url} cannot be fetched: ${error.detail}`);
      throw error;
    }
    const commit = (await repository.text(['rev-parse', '--verify', 'refs/voidbox/fetched^{commit}'])).trim();
    const bundle = await writeBase(host, repository, { commit, base: commit }, store, signal);
    return { commit, base: commit, bundle };
  });
}
