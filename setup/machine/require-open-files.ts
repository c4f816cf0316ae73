/** What runs for long is refused where it would end for want of descriptors, in the middle of something. */
import { openFilesLimit, STACK_OPEN_FILES, tooFewOpenFiles } from '../open-files.cjs';
import { SetupError } from '../setup-error.ts';

/** As the command line ends on a host that is not ready. */
const EXIT_NOT_READY = 3;

/** `what`: the beginning of a sentence. @throws SetupError */
export function requireOpenFiles(what: string): void {
  const tooFew = tooFewOpenFiles(what, STACK_OPEN_FILES);
  if (tooFew !== null) throw new SetupError(tooFew.message, tooFew.remedy);
}

/** For entries of processes that serve, which ask before they load what they serve with. */
export function exitWithoutOpenFiles(what: string): void {
  const tooFew = tooFewOpenFiles(what, STACK_OPEN_FILES);
  if (tooFew === null) return;
  process.stderr.write(`error: ${tooFew.message}\n  ${tooFew.remedy}\n`);
  process.exit(EXIT_NOT_READY);
}

/** Of this process; infinite where the system does not say. */
export function mostOpenFiles(): number {
  return openFilesLimit() ?? Number.POSITIVE_INFINITY;
}
