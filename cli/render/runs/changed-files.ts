/**
 * Renders the changes file by file and marks those to check first. The guest chose the names, so all of them are
 * sanitized.
 */
import type { ChangedFile } from '../../../git/changed-files.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import type { Style } from '../text/style.ts';

/** The number of lines; further files are only counted. */
const MOST_LINES = 200;

const SIGNS: Readonly<Record<ChangedFile['change'], string>> = {
  added: 'A',
  changed: 'M',
  deleted: 'D',
  renamed: 'R',
  'type-changed': 'T',
};

export function renderChangedFiles(files: readonly ChangedFile[], style: Style): string {
  // Files that the user should check get the lines first; they are only counted if there are more than `MOST_LINES`.
  const ordered = [...files.filter(isMarked), ...files.filter((file) => !isMarked(file))];
  const shown = new Set(ordered.slice(0, MOST_LINES));
  const lines = files.filter((file) => shown.has(file)).map((file) => line(file, style));
  const left = files.filter((file) => !shown.has(file));
  const marked = ordered.filter(isMarked).length;
  const hidden = left.filter(isMarked).length;
  const more = hidden === 0 ? `  and ${left.length} more` : `  and ${left.length} more, ${hidden} of them marked`;
  return [...lines, ...(left.length > 0 ? [more] : []), ...(files.length > 0 ? [renderMarks(marked)] : [])]
    .map((text) => `${text}\n`)
    .join('');
}

function isMarked({ notable }: ChangedFile): boolean {
  return notable.length > 0;
}

/** A user who reads only marked files would trust all others. */
function renderMarks(marked: number): string {
  const found =
    marked === 0
      ? 'no file is marked'
      : `${countOf(marked, 'file')} ${marked === 1 ? 'is' : 'are'} marked: programs run or read ${marked === 1 ? 'it' : 'them'} without a question`;
  return `${found}; the marks are never complete, so read every change`;
}

function line({ path, from, change, added, removed, notable }: ChangedFile, style: Style): string {
  const name = from === null ? sanitizeLine(path) : `${sanitizeLine(from)} → ${sanitizeLine(path)}`;
  const counts = added === null || removed === null ? 'binary' : `+${added} -${removed}`;
  const why = notable.length === 0 ? '' : `  ${style.yellow(notable.join(', '))}`;
  return `  ${SIGNS[change]} ${name}  ${style.dim(counts)}${why}`;
}

export function countOf(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}
