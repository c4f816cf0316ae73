/** Where a repository was cloned from, by the text of its configuration. */
import { type GitHost, gitText } from './run-git.ts';

/** @returns what `remote.origin.url` is; null: there is none, or there is no git */
export async function readOrigin(host: GitHost, config: Uint8Array): Promise<string | null> {
  const args = ['config', '--file', '-', '--no-includes', '--get', 'remote.origin.url'];
  const text = await gitText(host, args, { stdin: config }).catch(() => '');
  return text.trim() === '' ? null : text.trim();
}
