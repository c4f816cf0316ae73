/** Tests that a page of the docs names, as `file` "title". */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { findPackageRoot } from '../../setup/package-root.ts';

export interface NamedTest {
  readonly file: string;
  readonly title: string;
}

export function readNamedTests(text: string): readonly NamedTest[] {
  return [...text.matchAll(/`([^`]+)` "([^"]+)"/g)].map(([, file = '', title = '']) => ({ file, title }));
}

/** The rows of all tables of a page but their heads, as cells. */
export function rowsOfPage(page: string): readonly (readonly string[])[] {
  const lines = page.split('\n');
  return lines
    .filter((line, at) => line.startsWith('| ') && !/^\|[-|]+\|$/.test(lines[at + 1] ?? ''))
    .map((line) =>
      line
        .slice(1, -1)
        .split('|')
        .map((cell) => cell.trim()),
    );
}

/** The first of them that is not there; null when all are. */
export function findMissingTest(
  tests: readonly NamedTest[],
  read: (file: string) => string | null = readSource,
): string | null {
  for (const { file, title } of tests) {
    const text = read(file);
    if (text === null) return `${file}, which is not there`;
    if (!text.includes(title)) return `"${title}", which ${file} does not have`;
  }
  return null;
}

function readSource(file: string): string | null {
  const path = join(findPackageRoot(), file);
  return existsSync(path) ? readFileSync(path, 'utf8') : null;
}
