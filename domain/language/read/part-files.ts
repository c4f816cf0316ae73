/** The specs that a spec uses: their files, near and far, read once each. */
import type { Diagnostic } from '../../errors/diagnostic.ts';
import { PLAN_LIMITS } from '../../plan/plan.ts';
import { parseSpec } from './parse.ts';
import { resolveFrom } from '../text/paths.ts';
import type { Spec } from './spec.ts';

/** The text of a file by its full path, or why it cannot be read. */
export type ReadSpec = (path: string) => { readonly text: string } | { readonly problem: string };

export type PartFile =
  | {
      /** As diagnostics name it. */
      readonly file: string;
      readonly text: string;
      readonly spec: Spec | null;
      readonly diagnostics: readonly Diagnostic[];
    }
  | { readonly problem: string };

/** By full path. */
export type PartFiles = ReadonlyMap<string, PartFile>;

const PART_PATH = /^\.\.?\/[^\0]*\.(?:ya?ml|json)$/;

export interface PartFilePath {
  /** As it is written, without a part. */
  readonly file: string;
  /** Full. */
  readonly path: string;
  /** Of the part in it; null: the spec itself. */
  readonly part: string | null;
}

/** `./FILE.yaml`, or `./FILE.yaml#PART`; null: what is written names no file. */
export function partPath(baseDir: string, written: string): PartFilePath | null {
  const mark = PART_PATH.test(written) ? -1 : written.lastIndexOf('#');
  const file = mark === -1 ? written : written.slice(0, mark);
  const path = PART_PATH.test(file) ? resolveFrom(baseDir, file) : null;
  return path === null ? null : { file, path, part: mark === -1 ? null : written.slice(mark + 1) };
}

export function folderOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/')) || '/';
}

/** Of no more than `PLAN_LIMITS.partFiles`: what is beyond is not there. */
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

/** A spec, and the parts in its file. */
export function allOf(spec: Spec): readonly Spec[] {
  return [spec, ...spec.parts.flatMap((part) => part.spec ?? [])];
}

/** A file as it is named from where the one that uses it is. */
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
