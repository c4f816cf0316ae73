import { readAllowedMounts } from '../../client/embedded/allowed-mounts.ts';
import { listSpecFolders } from '../../files/find-repository.ts';
import type { Environment } from '../../setup/environment.ts';

/**
 * Folders that files which a spec names may lie in: that of the spec, the repository that holds it, and what the user allows.
 * @param allow  folders of `--allow-mounts`, absolute
 * @throws SetupError when what is allowed cannot be read
 */
export function listSpecRoots(baseDir: string, allow: readonly string[], { stateDir }: Environment): readonly string[] {
  return [...listSpecFolders(baseDir), ...allow, ...readAllowedMounts(stateDir)];
}
