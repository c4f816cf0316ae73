/** Mocks of this process: no VM, no host files, nothing isolated. */
import type { VmKey } from '../activities/ports/sandbox.ts';
import { createMockBackend } from '../sandbox/mock/backend.ts';
import type { LaunchChoice } from './launch-options.ts';
import { newSandboxId, noteOf, type OpenedVm, type SandboxInfo, type VmSource } from './vm-source.ts';

export function createMockVms(): VmSource {
  const backend = createMockBackend();
  const known = new Map<string, { readonly choice: LaunchChoice; readonly info: SandboxInfo }>();
  const open = async (id: string, signal: AbortSignal): Promise<OpenedVm> => {
    const { choice, info } = known.get(id)!;
    return { vm: await backend.launch(keyOf(id), choice.spec, signal), notices: streamNothing, info };
  };
  const listAlive = (): readonly SandboxInfo[] => {
    const left = new Set(backend.alive());
    for (const id of known.keys()) if (!left.has(`${id}/mock/0`)) known.delete(id);
    return [...known.values()].map(({ info }) => info);
  };

  return {
    async launch(choice, signal) {
      const id = newSandboxId();
      const { memoryMib, vcpus } = choice.spec;
      known.set(id, { choice, info: { ...noteOf(id, choice), mode: 'mock', memoryMib, vcpus } });
      return await open(id, signal);
    },
    async connect(id, signal) {
      return listAlive().some((info) => info.id === id) ? await open(id, signal) : null;
    },
    list: async () => listAlive(),
  };
}

// A mock has no door.
async function* streamNothing(): AsyncGenerator<Uint8Array, void, void> {}

function keyOf(id: string): VmKey {
  return { runId: id, scope: 'mock', instance: [], generation: 0 };
}
