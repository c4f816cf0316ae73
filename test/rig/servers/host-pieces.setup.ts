/** Before any test that needs a server or a VM: every piece is here, or the whole group fails with the command that gets it. */
import { readEnvironment } from '../../../setup/environment.ts';
import { resolveHostPieces, SetupError } from '../../../setup/resolve.ts';

export default async function setup(): Promise<void> {
  try {
    await resolveHostPieces(readEnvironment(), {
      install: true,
      onProgress: (line) => console.error(`set-up: ${line}`),
    });
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    throw new Error(`these tests need the machine to be set up: ${error.message}\n  ${error.remedy ?? ''}`, {
      cause: error,
    });
  }
}
