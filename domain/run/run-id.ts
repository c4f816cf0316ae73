/**
 * A run's id is its Temporal workflow id, so it is any text that Temporal takes: schedules make ids with colons,
 * clients make what they like. Where an id becomes a part of a name (a folder, a VM key) it is escaped here.
 */
import { quoteArgument } from '../security/typed-argument.ts';
import { utf8Length } from '../units/utf8.ts';

/** Temporal's `limit.maxIDLength`, which counts bytes of UTF-8. */
export const RUN_ID_BYTES = 1_000;

const LONE_SURROGATE = /\p{Surrogate}/u;

/** What keeps a text from being a run id, as the end of a sentence; null when nothing does. */
export function runIdProblem(id: string): string | null {
  if (id === '') return 'it is empty';
  if (LONE_SURROGATE.test(id)) return 'it is not Unicode text';
  const bytes = utf8Length(id);
  return bytes > RUN_ID_BYTES ? `it has ${bytes} bytes, at most ${RUN_ID_BYTES} are allowed` : null;
}

export function isRunId(id: string): boolean {
  return runIdProblem(id) === null;
}

/**
 * The id with everything but `A-Z a-z 0-9 . _ -` as `%XX`: no two ids have the same, and an id of those characters is
 * itself. A dot in front is escaped too, so that none is `.`, `..` or hidden as a name.
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

/** A run's id as a person types it in a command: `escapeRunId` makes names of folders, which commands do not take. */
export function quoteRunId(runId: string): string {
  return runId.startsWith('-') ? `-- ${quoteArgument(runId)}` : quoteArgument(runId);
}

/** The id that `escapeRunId` makes this text of; null when it makes it of none. */
export function unescapeRunId(escaped: string): string | null {
  let id: string;
  try {
    id = decodeURIComponent(escaped);
  } catch {
    return null;
  }
  return isRunId(id) && escapeRunId(id) === escaped ? id : null;
}
