import { findNearest } from '../../domain/language/text/suggest.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { createUsageError } from '../app-error.ts';
import { quoteRunId } from '../../domain/run/run-id.ts';
import { shorten } from '../../domain/units/quote.ts';

/** An id in a line that a person reads. */
export function formatRunId(runId: string): string {
  return sanitizeLine(runId);
}

export interface CommandParts {
  /** Options, as they are typed: `--stage a`. */
  readonly options?: string;
  /** Arguments after the run, as they are typed. */
  readonly names?: string;
}

/** Returns a command for a run, as a user types it. An id that begins with a hyphen follows `--`, because no option is read after it. */
export function renderCommand(name: string, runId: string, { options = '', names = '' }: CommandParts = {}): string {
  const [given, after] = [options, names].map((text) => (text === '' ? '' : ` ${text}`)) as [string, string];
  const run = quoteRunId(runId);
  return runId.startsWith('-') ? `voidbox ${name}${given} ${run}${after}` : `voidbox ${name} ${run}${after}${given}`;
}

/** Returns a remedy whose commands name the run; texts that know no run write `RUN` for it. */
export function nameRunIn(remedy: string, runId: string): string {
  return remedy.replaceAll(/\bvoidbox ([a-z-]+) RUN\b(?: (-[^`]*))?/g, (_, command: string, options = '') =>
    renderCommand(command, runId, { options }),
  );
}

/** Returns the id to type if all of these ids are of one run; else the placeholder `RUN`. */
export function findCommonRunId(runIds: readonly (string | null)[]): string {
  const [runId, ...more] = new Set(runIds);
  return runId === undefined || runId === null || more.length > 0 ? 'RUN' : quoteRunId(runId);
}

/** The word of the command line for the last started run. */
export const LATEST = 'latest';

/** @throws AppError for an id that commands would read as another run */
export function refuseReservedRunId(runId: string): void {
  if (runId !== LATEST) return;
  throw createUsageError(
    `\`--run-id ${LATEST}\`: commands take \`${LATEST}\` for the last started run`,
    'Give another id, such as latest-1, or remove --run-id',
  );
}

/**
 * The run that `text` names: an exact id, else the only id that begins with it. `latest` is the last started.
 * @throws AppError with the latest runs, or with the runs that the prefix could mean
 */
export function matchRunId(text: string, known: readonly string[]): string {
  if (text === LATEST && known[0] !== undefined) return known[0];
  if (known.includes(text)) return text;
  const matches = known.filter((runId) => runId.startsWith(text));
  if (text !== '' && matches.length === 1 && matches[0] !== undefined) return matches[0];
  if (text !== '' && matches.length > 1) {
    throw createUsageError(
      `\`${shorten(text)}\` matches ${matches.length} runs`,
      listing('Use a longer prefix of one of these ids:', matches),
    );
  }
  if (known.length === 0)
    throw createUsageError(
      `there is no run \`${shorten(text)}\`: this state folder has no runs yet`,
      'Start one: voidbox run FILE',
    );
  const alike = known.filter((runId) => Math.abs(text.length - runId.length) <= MOST_LETTERS_APART);
  const meant = findNearest(text, alike);
  const guess = meant === null ? '' : `Did you mean ${formatRunId(meant)}?\n`;
  throw createUsageError(
    `there is no run \`${shorten(formatRunId(text))}\``,
    `${guess}${listing('The latest runs:', known)}`,
  );
}

/** A slip leaves the length about as it was. */
const MOST_LETTERS_APART = 3;

function listing(title: string, runIds: readonly string[]): string {
  const shown = runIds.slice(0, 5).map((runId) => `  ${formatRunId(runId)}`);
  const more = runIds.length > shown.length ? [`  … ${runIds.length - shown.length} more: voidbox runs --all`] : [];
  return [title, ...shown, ...more].join('\n');
}

/** Quotes a name for a shell, which would read the brackets of an item as a pattern. */
export function quoteStageName(name: string): string {
  const line = sanitizeLine(name);
  return /^[\w.-]+$/.test(line) ? line : `'${line.replaceAll("'", '')}'`;
}
