/**
 * Entry of a worker process: `node dist/workers/main.js`, started by the supervisor or on a host of a shared server. It
 * imports little: if the limit of open files is too low, Node's loader would end it with a stack trace. The rest is in
 * a bundle, which loads in half the time of its modules (docs/adr/0037-the-command-line-is-bundled.md).
 */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { findPackageRoot } from '../setup/package-root.ts';
import { exitWithoutOpenFiles } from '../setup/machine/require-open-files.ts';
import type { serveWorker } from './serve-worker.ts';

exitWithoutOpenFiles('A worker');
const root = findPackageRoot();
const { loadCached } = createRequire(import.meta.url)(join(root, 'bin', 'load-cached.cjs')) as {
  readonly loadCached: (main: string) => { readonly exports: { readonly serveWorker: typeof serveWorker } };
};
await loadCached(join(root, 'dist', 'worker-bundle', 'serve-worker.cjs')).exports.serveWorker();
