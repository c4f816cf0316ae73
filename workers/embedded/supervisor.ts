/**
 * Entry of the process that owns an embedded stack. It was started through `voidbox-vm lock` and holds the state
 * folder's lock for its life. It ends when the stack is no longer in use. It imports little: if the limit of open files
 * is too low, Node's loader would end it with a stack trace.
 */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { StackPieces } from '../../setup/pieces/host-pieces.ts';
import { isCodedError } from '../../domain/errors/coded-error.ts';
import { remedyOf } from '../../domain/errors/error-code.ts';
import { keepStateFormat } from '../../store/state-format.ts';
import { exitWithoutOpenFiles } from '../../setup/machine/require-open-files.ts';
import { clearStopMark } from '../../client/embedded/stop-mark.ts';
import { removeUnfinished } from '../../client/embedded/replace-file.ts';
import { removeStackFile, stackFile } from '../../client/embedded/stack-info.ts';
import { stackPortsFile } from '../../client/embedded/stack-ports.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import type { supervise } from './supervise.ts';

const IDLE_LIMIT_MS = 10 * 60_000;
const EXIT_NOT_STARTED = 1;

exitWithoutOpenFiles('The embedded stack');
const { values } = parseArgs({
  options: {
    'state-dir': { type: 'string' },
    'cache-dir': { type: 'string' },
    build: { type: 'string' },
    pieces: { type: 'string' },
    'idle-limit-ms': { type: 'string' },
  },
});
const stateDir = values['state-dir'] ?? '';
try {
  keepStateFormat(stateDir);
} catch (error) {
  if (!isCodedError(error)) throw error;
  process.stderr.write(`${error.message} (${error.code})\n${remedyOf(error.code) ?? ''}\n`);
  process.exit(EXIT_NOT_STARTED);
}
removeStackFile(stateDir);
for (const file of [stackFile(stateDir), stackPortsFile(stateDir)]) removeUnfinished(file);
clearStopMark(stateDir);
// A bundle loads in half the time of its modules (docs/adr/0037-the-command-line-is-bundled.md).
const root = findPackageRoot();
const { loadCached } = createRequire(import.meta.url)(join(root, 'bin', 'load-cached.cjs')) as {
  readonly loadCached: (main: string) => { readonly exports: { readonly supervise: typeof supervise } };
};
const { exports: bundle } = loadCached(join(root, 'dist', 'stack-bundle', 'supervise.cjs'));
const isUp = await bundle.supervise({
  stateDir,
  cacheDir: values['cache-dir'] ?? '',
  build: values.build ?? '',
  pieces: JSON.parse(values.pieces ?? '') as StackPieces,
  idleLimitMs: Number(values['idle-limit-ms'] ?? IDLE_LIMIT_MS),
});
process.exit(isUp ? 0 : EXIT_NOT_STARTED);
