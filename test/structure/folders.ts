/** Rules for folders of this repository: their size, and an order of the folders of a room. */
import { posix } from 'node:path';
import { findComponents } from '../../domain/step-machine/graph.ts';
import type { ImportGraph } from './imports.ts';

/** @returns a line for each folder with more than `most` files of the product; files of subfolders count there */
export function findFullFolders(paths: readonly string[], most: number): readonly string[] {
  const counts = new Map<string, number>();
  for (const path of paths) {
    if (path.endsWith('.test.ts')) continue;
    const folder = posix.dirname(path);
    counts.set(folder, (counts.get(folder) ?? 0) + 1);
  }
  return [...counts].filter(([, count]) => count > most).map(([folder, count]) => `${folder}: ${count} files`);
}

/** @returns a line for each group of folders that need each other, with the imports between them */
export function findFolderCircles(graph: ImportGraph): readonly string[] {
  const folders = new Map<string, string[]>();
  const imports: { readonly file: string; readonly target: string }[] = [];
  for (const [file, targets] of graph) {
    const own = folders.get(posix.dirname(file)) ?? [];
    folders.set(posix.dirname(file), own);
    for (const target of targets) {
      if (posix.dirname(target) === posix.dirname(file)) continue;
      own.push(posix.dirname(target));
      imports.push({ file, target });
    }
  }
  return findComponents(folders)
    .filter((group) => group.length > 1)
    .map((group) => {
      const within = imports.filter(
        ({ file, target }) => group.includes(posix.dirname(file)) && group.includes(posix.dirname(target)),
      );
      const arrows = within.map(({ file, target }) => `${file} imports ${target}`);
      return `${group.toSorted().join(', ')}: ${arrows.join('; ')}`;
    });
}
