import { sanitizeLine } from '../domain/security/sanitize.ts';
import { usageError } from './cli-error.ts';

/** An id in a line that a person reads. */
export function shownRunId(runId: string): string {
  return sanitizeLine(runId);
}

/** An id in a command line that is to be typed: quoted where a shell would read something else. */
export function typedRunId(runId: string): string {
  if (/^(?!-)[A-Za-z0-9._:@%+=,/-]+$/.test(runId)) return runId;
  const quoted = sanitizeLine(runId) === runId ? `'${runId.replaceAll("'", `'\\''`)}'` : bashString(runId);
  return runId.startsWith('-') ? `-- ${quoted}` : quoted;
}

/** What a terminal would act on, as bash and zsh write it. */
function bashString(text: string): string {
  const escaped = Array.from(new TextEncoder().encode(text), (byte) =>
    byte >= 0x20 && byte < 0x7f && byte !== 0x27 && byte !== 0x5c
      ? String.fromCharCode(byte)
      : `\\x${byte.toString(16).padStart(2, '0')}`,
  );
  return `$'${escaped.join('')}'`;
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
    throw usageError(
      `\`${text}\` could be any of ${matches.length} runs`,
      listing('Type more of one of these:', matches),
    );
  }
  if (known.length === 0)
    throw usageError(`there is no run \`${text}\`: this state folder has no runs yet`, 'Start one: voidbox run FILE');
  throw usageError(`there is no run \`${text}\``, listing('The latest runs:', known));
}

function listing(title: string, runIds: readonly string[]): string {
  const shown = runIds.slice(0, 5).map((runId) => `  ${shownRunId(runId)}`);
  const more = runIds.length > shown.length ? [`  … ${runIds.length - shown.length} more: voidbox runs`] : [];
  return [title, ...shown, ...more].join('\n');
}
