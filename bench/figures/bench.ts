/** The settings and workers that figures are measured with. */
import { join } from 'node:path';
import type { Environment } from '../../setup/environment.ts';
import type { HostPieces } from '../../setup/pieces/host-pieces.ts';
import { workerArgs } from '../../setup/worker-command.ts';
import { type BenchProcess, startNode } from '../servers.ts';

export interface Bench {
  readonly env: Environment;
  readonly pieces: HostPieces;
  /** Our own kernel, compared with Debian's; null if it is not built. */
  readonly ownKernel: HostPieces | null;
  readonly root: string;
  readonly workDir: string;
  readonly rounds: number;
  /** The number of items in the figure of items; use fewer for a quick run. */
  readonly items: number;
  readonly say: (line: string) => void;
}

export function startBareWorker({ root, env }: Bench, address: string, taskQueue = 'bare'): Promise<BenchProcess> {
  return startNode(
    [
      join(root, 'dist', 'bench', 'bare-worker.js'),
      address,
      join(root, 'dist', 'bench', 'bare-workflow.js'),
      taskQueue,
    ],
    env.variables,
    /ready/,
  );
}

export function startOurWorker(
  { env, workDir, pieces }: Bench,
  address: string,
  stateDir: string,
): Promise<BenchProcess> {
  const server = ['--address', address, '--embedded'];
  const files = ['--state-dir', join(workDir, stateDir), '--pieces', JSON.stringify(pieces)];
  return startNode([...workerArgs(), ...server, ...files], env.variables, /voidbox-worker ready/);
}
