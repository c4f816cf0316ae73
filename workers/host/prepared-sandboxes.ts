/** The prepared sandboxes of this host's state folder. */
import type { PreparedSandboxes } from '../../activities/ports/prepared-sandboxes.ts';
import { findPreparedSandbox } from '../../store/prepared-sandboxes.ts';

export function createPreparedSandboxes(stateDir: string): PreparedSandboxes {
  return {
    async find(text) {
      const found = findPreparedSandbox(stateDir, text);
      return typeof found === 'string' ? { problem: found } : { dir: found.dir };
    },
  };
}
