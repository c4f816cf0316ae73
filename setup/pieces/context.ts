/** The context in which pieces are found: the environment, the system, the kernel's kind, and the other pieces. */
import { findCacheDamage, cacheFolderPath } from '../cache/cache.ts';
import { createPackagesError } from './distribution-packages.ts';
import type { Environment } from '../environment.ts';
import { readHostSystem } from '../machine/host-system.ts';
import { findPackageRoot } from '../package-root.ts';
import type { FoundPiece, KernelKind, Piece, PieceName, SetupContext } from './piece.ts';
import { isOptionalPiece, findPiece } from './pieces.ts';
import { SetupError } from '../setup-error.ts';
import { findVoidboxKernel } from './voidbox-kernel.ts';

/** The command that sets up every piece. The command line replaces the name of the program by the one that the user types. */
const SET_UP_COMMAND = 'voidbox up';

export async function makeContext(
  env: Environment,
  onProgress: ((line: string) => void) | undefined,
  kernelKind?: KernelKind,
): Promise<SetupContext> {
  const base: SetupContext = {
    env,
    system: readHostSystem(),
    packageRoot: findPackageRoot(),
    kernelKind: 'debian',
    progress: onProgress ?? (() => undefined),
    need: (name) => Promise.reject(new Error(`nothing asks for ${name} here`)),
  };
  return { ...base, kernelKind: kernelKind ?? (await preferredKernelKind(base)) };
}

async function preferredKernelKind(context: SetupContext): Promise<KernelKind> {
  if (context.env.kernelKind !== null) return context.env.kernelKind;
  // A kernel that is named without its kind counts as a kernel with everything built in.
  if (context.env.piecePaths['kernel'] !== undefined) return 'voidbox';
  return (await findVoidboxKernel(context)) === null ? 'debian' : 'voidbox';
}

/** Returns a function that finds or gets each piece once, even if many callers need it. */
export function pieceSource(context: SetupContext, install: boolean): (name: PieceName) => Promise<FoundPiece> {
  const asked = new Map<PieceName, Promise<FoundPiece>>();
  const need = (name: PieceName): Promise<FoundPiece> => {
    let answer = asked.get(name);
    if (answer === undefined) {
      answer = findOrGet({ ...context, need }, findPiece(name), install);
      asked.set(name, answer);
    }
    return answer;
  };
  return need;
}

async function findOrGet(context: SetupContext, piece: Piece, install: boolean): Promise<FoundPiece> {
  const found = await piece.find(context);
  if (found !== null) return found;
  if (piece.get === null) throw createPackagesError(context, [piece]);
  const folder = piece.folder?.(context);
  const damage = folder === undefined ? null : findCacheDamage(folder);
  if (!install && !piece.isLocal)
    throw new SetupError(
      damage === null
        ? `${piece.name} is not set up on this machine yet.`
        : `${piece.name} in ${cacheFolderPath(folder!)} is damaged: ${damage}.`,
      isOptionalPiece(piece.name) ? `${SET_UP_COMMAND} --with ${piece.name}` : SET_UP_COMMAND,
    );
  if (damage !== null) context.progress(`${piece.name} in the cache is damaged, ${damage}: set-up gets it again`);
  return piece.get(context);
}
