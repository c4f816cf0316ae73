/** The import graph: the files of this repository in TypeScript or JavaScript, and every import between them. */
import { execFileSync } from 'node:child_process';
import { posix } from 'node:path';
import { parse } from '../../skill-kit/lint/syntax.ts';

/** Paths from the root; for each file the files that it imports. */
export type ImportGraph = ReadonlyMap<string, readonly string[]>;

/** Files that Git knows or would add, so that a change which is not committed yet counts too. */
export function pathsOf(root: string): readonly string[] {
  const list = (...options: string[]): readonly string[] =>
    execFileSync('git', ['ls-files', '-z', ...options], { cwd: root, encoding: 'utf8' })
      .split('\0')
      .slice(0, -1);
  const deleted = new Set(list('--deleted'));
  return list('--cached', '--others', '--exclude-standard').filter((path) => !deleted.has(path));
}

/**
 * Imports of types count like imports of values, and dynamic imports count like static ones: all of them connect files
 * that a reader has to understand together.
 * @param sources  texts by path
 */
export function importGraph(sources: ReadonlyMap<string, string>): ImportGraph {
  const graph = new Map<string, readonly string[]>();
  for (const [path, text] of sources) {
    const targets = readSpecifiers(path, text)
      .filter((specifier) => specifier.startsWith('.'))
      .map((specifier) => posix.join(posix.dirname(path), specifier));
    graph.set(
      path,
      [...new Set(targets)].filter((target) => sources.has(target)),
    );
  }
  return graph;
}

/** Tests of the same process ask for the same files, and reading all of them takes seconds of a CPU. */
const known = new Map<string, { readonly text: string; readonly specifiers: readonly string[] }>();

function readSpecifiers(path: string, text: string): readonly string[] {
  const found = known.get(path);
  if (found?.text === text) return found.specifiers;
  const specifiers = specifiersIn(parse(path, text));
  known.set(path, { text, specifiers });
  return specifiers;
}

/** Finds the specifiers of `import … from`, `export … from`, `import(…)` of a literal, and `import('…').Type`. */
function specifiersIn(program: object): readonly string[] {
  const found: string[] = [];
  const open: object[] = [program];
  for (let part = open.pop(); part !== undefined; part = open.pop()) {
    // Only imports and exports have a `source`, so the kind of the part of the syntax tree does not matter.
    const { source } = part as { readonly source?: unknown };
    if (isObject(source) && 'value' in source && typeof source.value === 'string') found.push(source.value);
    for (const value of Object.values(part) as unknown[]) if (isObject(value)) open.push(value);
  }
  return found;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
