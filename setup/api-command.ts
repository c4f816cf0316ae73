/** The command that starts the process of the HTTP API. */
import { join } from 'node:path';
import { findPackageRoot } from './package-root.ts';

/** Returns all arguments of Node. */
export function listApiArgs(): readonly string[] {
  return [join(findPackageRoot(), 'dist', 'server', 'main.js')];
}

/** Returns all arguments of Node for the process of `voidbox serve`. */
export function listServeArgs(): readonly string[] {
  return [join(findPackageRoot(), 'dist', 'server', 'serve.js')];
}
