/** What would be taken, file by file, with what to look at before. Names are the guest's, so all of it is made harmless. */
import type { ChangedFile } from '../../git/changed-files.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import type { Style } from './style.ts';

/** More are counted. */
const MOST_LINES = 200;

const SIGNS: Readonly<Record<ChangedFile['change'], string>> = {
  added: 'A',
  changed: 'M',
  deleted: 'D',
  renamed: 'R',
  'type-changed': 'T',
};

export function renderChangedFiles(files: readonly ChangedFile[], style: Style): string {
  // Those that somebody should look at are never among the ones that are only counted.
  const ordered = [
    ...files.filter(({ notable }) => notable.length > 0),
    ...files.filter(({ notable }) => notable.length === 0),
  ];
  const shown = new Set(ordered.slice(0, MOST_LINES));
  const lines = files.filter((file) => shown.has(file)).map((file) => line(file, style));
  const left = files.length - shown.size;
  return [...lines, ...(left > 0 ? [`  and ${left} more`] : [])].map((text) => `${text}\n`).join('');
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
