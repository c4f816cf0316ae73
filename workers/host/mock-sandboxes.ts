/** The sandboxes of a worker that was told to simulate all: it needs no piece of a VM, and makes none. */
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import type { HostSandboxes } from './sandboxes.ts';

export function createMockSandboxes(): HostSandboxes {
  const backend = createMockBackend();
  return {
    vmOverheadMib: () => Promise.resolve(0),
    backendFor: () => backend,
    release: (key) => backend.release(key),
    // Mocks live in this process alone and are counted nowhere.
    sweep: () => Promise.resolve([]),
    keepAlive: () => Promise.resolve(),
  };
}
