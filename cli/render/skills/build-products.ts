/**
 * Renders new files that look like products of a build, folder by folder. The guest chose the names, so all of them are
 * sanitized.
 */
import type { BuildProduct } from '../../../git/build-products.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { countOf } from '../runs/changed-files.ts';
import type { Style } from '../text/style.ts';

/** More are counted. */
const MOST_LINES = 50;

export function renderBuildProducts(products: readonly BuildProduct[], style: Style): string {
  if (products.length === 0) return '';
  const lines = products.slice(0, MOST_LINES).map(({ path, files, notable }) => {
    const count = path.endsWith('/') ? `  ${style.dim(countOf(files, 'file'))}` : '';
    const why = notable.length === 0 ? '' : `, ${notable.join(', ')}`;
    return `  A ${sanitizeLine(path)}${count}  ${style.yellow(`product of a build${why}`)}\n`;
  });
  const left = products.length - lines.length;
  const more = left > 0 ? `  and ${left} more products of builds\n` : '';
  return `${lines.join('')}${more}Products of builds are part of the changes: \`workspace: { …, changes: none }\` for a stage that only checks, or \`.gitignore\`, keeps them out\n`;
}
