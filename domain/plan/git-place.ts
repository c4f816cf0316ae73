/** Decides which git repositories on the network a run may fetch, as HOST/PATH: all forms of one URL have one place. */

/**
 * Reads a URL: `https://GitHub.com/acme/app.git/` is `github.com/acme/app`.
 * @returns null for a URL that could mean another place than it shows: encoded dots and slashes, `..`, a query, a user
 */
export function toGitPlace(address: string): string | null {
  const found = /^https:\/\/([^/@?#\\]+)\/([^?#\\]*)$/i.exec(address);
  return found === null ? null : readGitPlace(`${found[1]!.replace(/:443$/, '')}/${found[2]!}`);
}

/** Reads HOST/PATH as a user writes it; null if the text is not a place. */
export function readGitPlace(text: string): string | null {
  const found = /^([A-Za-z0-9.-]+(?::[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](?::[0-9]{1,5})?)\/(.+)$/.exec(text);
  if (found === null || /[\s\p{Cc}?#@\\]|%(?:2e|2f|5c)/iu.test(text)) return null;
  const path = found[2]!.replace(/\/+$/, '').replace(/\.git$/, '');
  if (path.split('/').some((name) => name === '' || name === '.' || name === '..')) return null;
  return `${found[1]!.toLowerCase()}/${path}`;
}

/** Reads a place as `readGitPlace` does, for an option that allows places. A place is never a pattern. */
export function readAllowedPlace(text: string): string | null {
  return text.includes('*') ? null : readGitPlace(text);
}

/**
 * Reads the place of a git remote, also by SSH: `git@github.com:acme/app.git` is `github.com/acme/app`. Null: the
 * remote is not on the network.
 */
export function toRemotePlace(remote: string): string | null {
  const ssh = /^(?:ssh:\/\/(?:[^/@]+@)?([^/:@]+)(?::22)?\/|(?:[^/@:]+@)?([^/:@]+):(?!\/\/))(.+)$/.exec(remote);
  if (ssh !== null) return readGitPlace(`${ssh[1] ?? ssh[2]!}/${ssh[3]!}`);
  return toGitPlace(remote.replace(/^(https:\/\/)[^/@]*@/i, '$1'));
}

/** @param allowed  places, as `readGitPlace` returns them; each also allows the places below it */
export function allowsGitPlace(allowed: readonly string[], place: string): boolean {
  return allowed.some((each) => place === each || place.startsWith(`${each}/`));
}
