/**
 * Matches the files of a folder that `for_each` names. A pattern is matched segment by segment, so that a walk skips
 * folders in which no file can match.
 */
import { PLAN_LIMITS } from '../../plan/plan.ts';
import { quote } from '../../units/quote.ts';

export interface FilePattern {
  /** The pattern as the author wrote it. */
  readonly text: string;
  /** The parts between slashes. `**` matches any number of folders, and is never the last segment. */
  readonly segments: readonly string[];
}

/** The paths are relative to the folder, with `/`, in the order of their code units. */
export type ListedFiles = { readonly files: readonly string[] } | { readonly problem: string };

/** @param folder  absolute; no file outside of it is read */
export type ListFiles = (folder: string, pattern: FilePattern) => ListedFiles;

/** The positions in the segments that the names so far have reached, each once. */
export type PatternState = readonly number[];

export const PATTERN_LIMITS = {
  characters: PLAN_LIMITS.referenceCharacters,
  segments: 32,
  /** The most files and folders that a walk visits. */
  entries: 100_000,
  /** The deepest level of folders. */
  depth: 64,
} as const;

const REMEDY = 'write a path relative to the folder of the spec, such as `data/*.csv` or `data/**/*.csv`';

export function patternOf(text: string): FilePattern | { readonly problem: string; readonly remedy: string } {
  const written = text.split('/');
  const segments = written.filter((segment, at) => segment !== '' && segment !== '.' && !isAgain(written, at));
  const problem = problemOf(text, segments);
  if (problem !== null) return { problem, remedy: REMEDY };
  return { text, segments: segments.at(-1) === '**' ? [...segments, '*'] : segments };
}

/** `**` after `**` matches the same folders. */
function isAgain(written: readonly string[], at: number): boolean {
  return written[at] === '**' && written[at - 1] === '**';
}

function problemOf(text: string, segments: readonly string[]): string | null {
  if (text.length > PATTERN_LIMITS.characters)
    return `the pattern has ${text.length} characters; at most ${PATTERN_LIMITS.characters} are allowed`;
  const shown = quote(text);
  if (segments.length === 0) return `the pattern ${shown} contains no name of a file`;
  if (text.startsWith('/')) return `the pattern ${shown} is absolute`;
  if (segments.includes('..')) return `the pattern ${shown} leaves the folder of the spec`;
  if (segments.length > PATTERN_LIMITS.segments)
    return `the pattern has ${segments.length} names between slashes; at most ${PATTERN_LIMITS.segments} are allowed`;
  const [strange] = /[[\]{}\\\0]/.exec(text) ?? [];
  if (strange !== undefined)
    return `the pattern ${shown} has ${JSON.stringify(strange)}; only \`*\`, \`?\` and \`**/\` are supported`;
  if (segments.some((segment) => segment.includes('**') && segment !== '**'))
    return `the pattern ${shown} combines \`**\` with other characters: write only \`**\` between two slashes`;
  return null;
}

export function startOf(pattern: FilePattern): PatternState {
  return withFolders(pattern, [0]);
}

/** Returns the state after the name of a file or folder. */
export function advancePattern(pattern: FilePattern, state: PatternState, name: string): PatternState {
  const next = state.flatMap((at) => {
    const segment = pattern.segments[at];
    if (segment === '**') return name.startsWith('.') ? [] : [at];
    return segment !== undefined && isLike(segment, name) ? [at + 1] : [];
  });
  return withFolders(pattern, next);
}

/** Whether a file in this state matches. */
export function isMatch({ segments }: FilePattern, state: PatternState): boolean {
  return state.includes(segments.length);
}

/** Whether a folder in this state may contain matching files. */
export function mayHoldMatch({ segments }: FilePattern, state: PatternState): boolean {
  return state.some((at) => at < segments.length);
}

/** `**` may also match no folder. */
function withFolders({ segments }: FilePattern, state: PatternState): PatternState {
  return [...new Set(state.flatMap((at) => (segments[at] === '**' ? [at, at + 1] : [at])))];
}

/**
 * Compares in time of at most the product of both lengths, so that no pattern is slow. Only a dot matches a leading
 * dot.
 */
function isLike(segment: string, name: string): boolean {
  if (name.startsWith('.') && !segment.startsWith('.')) return false;
  const wanted = [...segment];
  const given = [...name];
  let at = 0;
  let star = -1;
  let from = 0;
  for (let index = 0; index < given.length;) {
    if (wanted[at] === '*') {
      star = at;
      from = index;
      at += 1;
    } else if (at < wanted.length && (wanted[at] === '?' || wanted[at] === given[index])) {
      at += 1;
      index += 1;
    } else if (star >= 0) {
      at = star + 1;
      from += 1;
      index = from;
    } else return false;
  }
  while (wanted[at] === '*') at += 1;
  return at === wanted.length;
}
