/** Finds the VMs for this process: from its environment, the pieces from set-up, and its mocks. */
import { resolve } from 'node:path';
import { CodedError } from '../domain/errors/coded-error.ts';
import { useBinding } from '../native/index.ts';
import { type Environment, readEnvironment } from '../setup/environment.ts';
import { findHostBinding } from '../setup/host-binding.ts';
import type { VmPieces } from '../setup/pieces/host-pieces.ts';
import { resolveOptionalPieces, resolveVmPieces, SetupError } from '../setup/resolve.ts';
import type { PreparedPlace } from '../store/prepared-sandboxes.ts';
import { createMockVms } from './mock-vms.ts';
import { createRealVms } from './real-vms.ts';
import type { VmSource } from './vm-source.ts';

export interface SourceOptions {
  readonly stateDir?: string | undefined;
  readonly install?: boolean | undefined;
  readonly onProgress?: ((line: string) => void) | undefined;
}

let mocks: VmSource | null = null;

export function mockVms(): VmSource {
  return (mocks ??= createMockVms());
}

/** The state folder of an option, or of the environment. */
export function findStateDir({ stateDir }: Pick<SourceOptions, 'stateDir'>): string {
  return stateDir === undefined ? readEnvironment().stateDir : resolve(stateDir);
}

/** The prepared sandboxes of a state folder, with the limit of the environment. */
export function findPreparedPlace(stateDir: string): PreparedPlace {
  return { stateDir, maxMib: readEnvironment().preparedMaxMib };
}

export function openRealVms({ stateDir, install = false, onProgress }: SourceOptions): VmSource {
  const env = readEnvironment();
  let pieces: Promise<VmPieces> | null = null;
  const findPieces = async (): Promise<VmPieces> => {
    const found = await resolveVmPieces(env, { install, ...(onProgress === undefined ? {} : { onProgress }) });
    await loadBinding(env, onProgress);
    return found;
  };
  return createRealVms({
    stateDir: findStateDir({ stateDir }),
    env,
    pieces: () => (pieces ??= findPieces().catch(throwNotReady)),
    extra: async (name) =>
      (
        await resolveOptionalPieces(env, [name], {
          install,
          ...(onProgress === undefined ? {} : { onProgress }),
        }).catch(throwNotReady)
      ).get(name)!,
  });
}

/** Without the binding, child processes do its work. */
async function loadBinding(env: Environment, onProgress: SourceOptions['onProgress']): Promise<void> {
  const file = await findHostBinding(env);
  if (file === null) return;
  try {
    useBinding(file);
  } catch (error) {
    onProgress?.(`the binding for Node cannot be loaded, and child processes do its work: ${String(error)}`);
  }
}

/** Converts errors, so that callers of the API see one kind of error. */
export function throwNotReady(error: unknown): never {
  if (!(error instanceof SetupError)) throw error;
  const message = error.remedy === null ? error.message : `${error.message} ${error.remedy}`;
  throw new CodedError('host/not-ready', message, { cause: error });
}
