/** How a worker process is started. */
import { join } from 'node:path';
import { packageRoot } from './package-root.ts';

/**
 * Most objects of a stage die with it. In Node's 16 MiB the collector meets many of them while they live, and copies them; with 64 MiB
 * a worker with 50 stages side by side takes some 125 MiB more. @see docs/adr/0029-what-a-stage-costs.md
 */
const SEMI_SPACE_MIB = 64;

/** Node's own arguments. V8 takes the code cache of the worker's bundle only with the flags that the build made it with. */
export function workerFlags(): readonly string[] {
  return [`--max-semi-space-size=${SEMI_SPACE_MIB}`];
}

/** Arguments of Node: its own, and the script of the worker. */
export function workerArgs(): readonly string[] {
  return [...workerFlags(), join(packageRoot(), 'dist', 'workers', 'main.js')];
}
