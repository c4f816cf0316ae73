/**
 * Refuses to start long-running processes that would fail later for lack of descriptors, in the middle of their work.
 */
import { openFilesLimit, STACK_OPEN_FILES, tooFewOpenFiles } from '../open-files.cjs';
import { SetupError } from '../setup-error.ts';

/** The exit code of the command line on a host that is not ready. */
const EXIT_NOT_READY = 3;

/** `what` is the beginning of a sentence. @throws SetupError */
export function requireOpenFiles(what: string): void {
  const tooFew = tooFewOpenFiles(what, STACK_OPEN_FILES);
  if (tooFew !== null) throw new SetupError(tooFew.message, tooFew.remedy);
}

/** For entry points of servers, which check this before they load their modules. */
export function exitWithoutOpenFiles(what: string): void {
  const tooFew = tooFewOpenFiles(what, STACK_OPEN_FILES);
  if (tooFew === null) return;
  process.stderr.write(`error: ${tooFew.message}\n  ${tooFew.remedy}\n`);
  process.exit(EXIT_NOT_READY);
}

/** Returns the limit of this process; infinite if the system does not report it. */
export function mostOpenFiles(): number {
  return openFilesLimit() ?? Number.POSITIVE_INFINITY;
}
