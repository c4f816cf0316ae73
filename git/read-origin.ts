/** The address from which a repository was cloned, by the text of its configuration. */
import { type GitHost, gitText } from './run-git.ts';

/** @returns `remote.origin.url`; null: the configuration has no origin, or the host no git */
export async function readOrigin(host: GitHost, config: Uint8Array): Promise<string | null> {
  const args = ['config', '--file', '-', '--no-includes', '--get', 'remote.origin.url'];
  const text = await gitText(host, args, { stdin: config }).catch(() => '');
  return text.trim() === '' ? null : text.trim();
}
