/** The sandboxes of a worker that simulates everything: they need no pieces and start no VMs. */
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import type { HostSandboxes } from './sandboxes.ts';

export function createMockSandboxes(): HostSandboxes {
  const backend = createMockBackend();
  return {
    vmOverheadMib: () => Promise.resolve(0),
    backendFor: () => backend,
    release: (key) => backend.release(key),
    // Mocks exist only in this process, and no lease counts them.
    sweep: () => Promise.resolve([]),
    keepAlive: () => Promise.resolve(),
    warm: null,
  };
}
