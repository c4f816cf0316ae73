/** Reads the files of the specs that a spec uses, directly or through its parts, once each. */
import type { Diagnostic } from '../../errors/diagnostic.ts';
import { PLAN_LIMITS } from '../../plan/plan.ts';
import { parseSpec } from './parse.ts';
import { resolveFrom } from '../text/paths.ts';
import type { Spec } from './spec.ts';

/** Returns the text of a file by its full path, or the problem. */
export type ReadSpec = (path: string) => { readonly text: string } | { readonly problem: string };

export type PartFile =
  | {
      /** The name of the file in diagnostics. */
      readonly file: string;
      readonly text: string;
      readonly spec: Spec | null;
      readonly diagnostics: readonly Diagnostic[];
    }
  | { readonly problem: string };

/** Files by full path. */
export type PartFiles = ReadonlyMap<string, PartFile>;

const PART_PATH = /^\.\.?\/[^\0]*\.(?:ya?ml|json)$/;

export interface PartFilePath {
  /** The path as it is written, without the name of a part. */
  readonly file: string;
  /** The full path. */
  readonly path: string;
  /** The name of the part in the file; null: the file's own spec. */
  readonly part: string | null;
}

/** Parses `./FILE.yaml`, or `./FILE.yaml#PART`; null if the text names no file. */
export function partPath(baseDir: string, written: string): PartFilePath | null {
  const mark = PART_PATH.test(written) ? -1 : written.lastIndexOf('#');
  const file = mark === -1 ? written : written.slice(0, mark);
  const path = PART_PATH.test(file) ? resolveFrom(baseDir, file) : null;
  return path === null ? null : { file, path, part: mark === -1 ? null : written.slice(mark + 1) };
}

export function folderOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/')) || '/';
}

/** Reads at most `PLAN_LIMITS.partFiles` files; further files are missing from the result. */
export function readPartFiles(root: Spec, baseDir: string | null, read: ReadSpec | undefined): PartFiles {
  const files = new Map<string, PartFile>();
  if (read === undefined || baseDir === null) return files;
  const specs = allOf(root).map((spec) => ({ spec, folder: baseDir }));
  for (const { spec, folder } of specs)
    for (const { uses } of spec.stages) {
      const named = uses === null ? null : partPath(folder, uses.value);
      if (named === null || files.has(named.path) || files.size >= PLAN_LIMITS.partFiles) continue;
      const { path } = named;
      const found = read(path);
      if ('problem' in found) {
        files.set(path, found);
        continue;
      }
      const file = formatPathFrom(spec.file, named.file);
      const parsed = parseSpec(found.text, file);
      files.set(path, { file, text: found.text, ...parsed });
      if (parsed.spec !== null)
        specs.push(...allOf(parsed.spec).map((each) => ({ spec: each, folder: folderOf(path) })));
    }
  return files;
}

/** Returns a spec, and the parts in its file. */
export function allOf(spec: Spec): readonly Spec[] {
  return [spec, ...spec.parts.flatMap((part) => part.spec ?? [])];
}

/** Returns a path relative to the folder of the file that uses it. */
function formatPathFrom(file: string, written: string): string {
  const folder = file.includes('/') ? file.slice(0, file.lastIndexOf('/')) : '';
  const segments: string[] = [];
  for (const segment of (folder === '' && !file.startsWith('/') ? written : `${folder}/${written}`).split('/')) {
    if (segment === '.') continue;
    const last = segments.at(-1);
    if (segment === '..' && last !== undefined && last !== '..' && last !== '') segments.pop();
    else segments.push(segment);
  }
  return segments.join('/');
}
