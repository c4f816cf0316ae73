/** The binding of this host: which file a process may load. */
import type { Environment } from './environment.ts';
import { findOptionalPiece } from './resolve.ts';

/**
 * Returns null if the host has no binding, or if a variable names the keeper: that keeper may be of another build, which
 * has other run directories.
 */
export async function findHostBinding(env: Environment): Promise<string | null> {
  if (env.piecePaths['keeper'] !== undefined) return null;
  return await findOptionalPiece(env, 'binding');
}
