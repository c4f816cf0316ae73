import { readAllowedMounts } from '../../client/embedded/allowed-mounts.ts';
import { listSpecFolders } from '../../files/find-repository.ts';
import type { Environment } from '../../setup/environment.ts';

/**
 * Folders that may contain files that a spec names: the spec's folder, the repository around it, and the folders that
 * the user allows.
 * @param allow  folders of `--allow-mounts`, absolute
 * @throws SetupError if the allowed mounts cannot be read
 */
export function listSpecRoots(baseDir: string, allow: readonly string[], { stateDir }: Environment): readonly string[] {
  return [...listSpecFolders(baseDir), ...allow, ...readAllowedMounts(stateDir)];
}
