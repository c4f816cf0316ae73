/** Reads the URL from which a repository was cloned, given the text of its configuration. */
import { type GitHost, readGitText } from './run-git.ts';

/** @returns `remote.origin.url`; null if the configuration has no origin, or the host has no git */
export async function readOrigin(host: GitHost, config: Uint8Array): Promise<string | null> {
  const args = ['config', '--file', '-', '--no-includes', '--get', 'remote.origin.url'];
  const text = await readGitText(host, args, { stdin: config }).catch(() => '');
  return text.trim() === '' ? null : text.trim();
}
