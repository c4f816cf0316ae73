/**
 * A run's id is its Temporal workflow id, so it may be any text that Temporal accepts: schedules make ids with colons,
 * and clients choose their own. An id that becomes a part of a name (a folder, a VM key) is escaped here.
 */
import { quoteArgument } from '../security/typed-argument.ts';
import { countUtf8Bytes } from '../units/utf8.ts';

/** Temporal's `limit.maxIDLength`, which counts bytes of UTF-8. */
export const RUN_ID_BYTES = 1_000;

const LONE_SURROGATE = /\p{Surrogate}/u;

/** Explains why a text is not a run id, as the end of a sentence; null if it is a run id. */
export function runIdProblem(id: string): string | null {
  if (id === '') return 'it is empty';
  if (LONE_SURROGATE.test(id)) return 'it is not Unicode text';
  const bytes = countUtf8Bytes(id);
  return bytes > RUN_ID_BYTES ? `it has ${bytes} bytes, at most ${RUN_ID_BYTES} are allowed` : null;
}

export function isRunId(id: string): boolean {
  return runIdProblem(id) === null;
}

/**
 * Writes every character but `A-Z a-z 0-9 . _ -` as `%XX`. No two ids have the same escaped form, and an id of only
 * these characters stays as it is. A leading dot is escaped too, so that no name is `.`, `..` or hidden.
 */
export function escapeRunId(id: string): string {
  return encodeURIComponent(id)
    .replace(/[!'()*~]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)
    .replace(/^\./, '%2E');
}

/** Returns an id as an argument of a command in a message: after `--` no hyphen makes it an option. */
export function separateId(id: string): string {
  return id.startsWith('-') ? `-- ${id}` : id;
}

/**
 * A run's id as a person types it in a command. Commands do not accept the form of `escapeRunId`, which is for folders.
 */
export function quoteRunId(runId: string): string {
  return runId.startsWith('-') ? `-- ${quoteArgument(runId)}` : quoteArgument(runId);
}

/** The id with this escaped form; null if no id has it. */
export function unescapeRunId(escaped: string): string | null {
  let id: string;
  try {
    id = decodeURIComponent(escaped);
  } catch {
    return null;
  }
  return isRunId(id) && escapeRunId(id) === escaped ? id : null;
}
