/** The Temporal CLI that tests run. */
import { readEnvironment } from '../../../setup/environment.ts';
import { findOnPath } from '../../../setup/pieces/find-program.ts';
import { resolveHostPieces } from '../../../setup/resolve.ts';

export async function temporalCliForTests(): Promise<string> {
  const env = readEnvironment();
  return (
    env.piecePaths['temporal-cli'] ??
    findOnPath(env, ['temporal'])[0] ??
    (await resolveHostPieces(env, { install: false })).temporalCli
  );
}
