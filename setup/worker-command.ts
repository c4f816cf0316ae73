/** The command that starts a worker process. */
import { join } from 'node:path';
import { findPackageRoot } from './package-root.ts';

/**
 * Most objects of a stage die with it. With Node's 16 MiB, the garbage collector meets many of them while they live,
 * and copies them; with 64 MiB a worker with 50 concurrent stages uses some 125 MiB more. @see
 * docs/adr/0029-what-a-stage-costs.md
 */
const SEMI_SPACE_MIB = 64;

/**
 * Returns Node's own arguments. V8 accepts the code cache of the worker's bundle only with the flags with which the
 * build made it.
 */
export function workerFlags(): readonly string[] {
  return [`--max-semi-space-size=${SEMI_SPACE_MIB}`];
}

/** Returns all arguments of Node: its own, and the script of the worker. */
export function workerArgs(): readonly string[] {
  return [...workerFlags(), join(findPackageRoot(), 'dist', 'workers', 'main.js')];
}
