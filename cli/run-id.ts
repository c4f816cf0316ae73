import { randomBytes } from 'node:crypto';
import { usageError } from './cli-error.ts';

/** `admit` refuses anything else: the id is a workflow id, a folder's name and part of VM keys. */
export const RUN_ID = /^(?!\.)[A-Za-z0-9._-]{1,128}$/;

/** `<name>-<yyyymmdd>-<hhmmss>-<4 hex>` in UTC: readable, sorted by start, unique enough that a clash is refused at start. */
export function newRunId(name: string, now: Date, random: string = randomBytes(2).toString('hex')): string {
  const stamp = now
    .toISOString()
    .replace(/\.\d+Z$/, '')
    .replace(/[-:]/g, '')
    .replace('T', '-');
  const stem = name
    .replace(/[^A-Za-z0-9._-]+/g, '-')
    .replace(/^[.-]+/, '')
    .slice(0, 64);
  return `${stem === '' ? 'run' : stem}-${stamp}-${random}`;
}

/**
 * The run that `text` names: an exact id, else the only id that begins with it. `latest` is the last started.
 * @throws CliError with the latest runs, or with the runs that the prefix could mean
 */
export function matchRunId(text: string, known: readonly string[]): string {
  if (known.includes(text)) return text;
  if (text === 'latest' && known[0] !== undefined) return known[0];
  const matches = known.filter((runId) => runId.startsWith(text));
  if (text !== '' && matches.length === 1 && matches[0] !== undefined) return matches[0];
  if (text !== '' && matches.length > 1) {
    throw usageError(`\`${text}\` could be any of ${matches.length} runs`, listing('Type more of one of these:', matches));
  }
  if (known.length === 0) throw usageError(`there is no run \`${text}\`: this state folder has no runs yet`, 'Start one: voidbox run FILE');
  throw usageError(`there is no run \`${text}\``, listing('The latest runs:', known));
}

function listing(title: string, runIds: readonly string[]): string {
  const shown = runIds.slice(0, 5).map((runId) => `  ${runId}`);
  const more = runIds.length > shown.length ? [`  … ${runIds.length - shown.length} more: voidbox runs`] : [];
  return [title, ...shown, ...more].join('\n');
}
