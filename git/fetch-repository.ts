/**
 * Fetches a repository from another machine with git of the host, which logs in as the user does. No guest receives its
 * credentials.
 */
import { writeBase } from './base-bundle.ts';
import type { Packed } from './pack-repository.ts';
import { type PrivateRepository, withPrivateRepository } from './private-repository.ts';
import { type GitCall, GitError, type GitHost } from './run-git.ts';
import { WorkspaceProblem } from './workspace-problem.ts';

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
  return await withPrivateRepository(host, async (repository) => {
    const call: GitCall = {
      env: { GIT_ALLOW_PROTOCOL: protocol },
      withUserConfig: true,
      timeoutMs: FETCH_TIMEOUT_MS,
      ...(signal === undefined ? {} : { signal }),
    };
    const args = ['fetch', '--quiet', '--no-tags', '--no-recurse-submodules', '--no-write-fetch-head'];
    const refspec = `+${ref ?? 'HEAD'}:refs/voidbox/fetched`;
    const settings = (await sendsHeaders(repository, url, call)) ? ['-c', 'http.followRedirects=false'] : [];
    try {
      await repository.text([...settings, ...args, '--end-of-options', url, refspec], call);
    } catch (error) {
      if (error instanceof GitError && error.reason === 'failed')
        throw new WorkspaceProblem(`${url} cannot be fetched: ${withoutLogins(error.detail)}${hintOf(error, url)}`);
      throw error;
    }
    const commit = (await repository.text(['rev-parse', '--verify', 'refs/voidbox/fetched^{commit}'])).trim();
    const bundle = await writeBase(host, repository, { commit, base: commit }, store, signal);
    return { commit, base: commit, bundle };
  });
}

/**
 * Reports whether the user's configuration adds headers, which may be a login, to requests for this URL. After a
 * redirect, git sends them to the other host too, unlike logins of helpers.
 */
async function sendsHeaders(repository: PrivateRepository, url: string, call: GitCall): Promise<boolean> {
  // Git looks up the configuration with the URL that `insteadOf` produces.
  const address = (await repository.text(['ls-remote', '--get-url', '--end-of-options', url], call)).trim();
  try {
    return (await repository.text(['config', '--get-urlmatch', 'http.extraHeader', address], call)).trim() !== '';
  } catch (error) {
    // Git fails without a message if the configuration has no such header.
    if (error instanceof GitError && error.reason === 'failed' && error.said === '') return false;
    throw error;
  }
}

/** Removes logins, because `insteadOf` may put one into the URL, which git repeats when it asks for the rest. */
function withoutLogins(said: string): string {
  return said.replaceAll(/:\/\/[^/\s]*@/g, '://');
}

function hintOf({ said }: GitError, url: string): string {
  const hint = HINTS.find(([words]) => words.test(said))?.[1];
  return hint === undefined ? '' : `; ${hint.replace('ADDRESS', url)}`;
}

const HINTS: readonly (readonly [RegExp, string])[] = [
  [
    /could not read (?:Username|Password)/,
    'git of this host has no login for it: set one up, such as a credential helper, with which `git ls-remote ADDRESS` works without a question',
  ],
  [/Authentication failed/, 'the login that git of this host has for it is refused: renew it'],
  [
    /returned error: 30\d/,
    'the server leads elsewhere, where `http.extraHeader` of the configuration would be sent too: write the address that it leads to',
  ],
  [/transport '.*' not allowed/, "`insteadOf` of git's configuration leads to another protocol than https"],
];
