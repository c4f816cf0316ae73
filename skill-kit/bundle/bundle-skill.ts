/** One file of all that a skill's entry imports, named by a hash of its content, beside copies of its references. */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { FileRefusal, readFileWithin } from '../../files/open-file.ts';
import { listRegularFilesBelow } from '../../setup/cache/files-below.ts';
import { bundle } from './bundle.ts';
import { copyTree } from './copy-tree.ts';
import { skillDirOf } from '../prompt/reference-loader.ts';

export interface BundledSkill {
  readonly codeHash: string;
  /** Path of the code. */
  readonly bundle: string;
  /** Every file that it was made of, and when and how large: it is made again when this changes. */
  readonly signature: string;
  readonly inputs: readonly string[];
}

export function bundleFile(stateDir: string, codeHash: string): string {
  return join(stateDir, 'skills', codeHash, 'skill.mjs');
}

/** @throws CodedError `skill/unusable` */
export async function bundleSkill(entry: string, stateDir: string): Promise<BundledSkill> {
  // A skill's own script may lie in a folder below it.
  const folder = skillDirOf(entry);
  const { code, modules } = await bundle(entry, { forWorker: true });
  const references = referencesOf(folder);
  const hash = createHash('sha256').update(code);
  for (const file of references) hash.update(`\0${relative(folder, file)}\0`).update(readReference(file));
  const codeHash = hash.digest('hex');
  const inputs = [...modules, ...references];
  keep(stateDir, codeHash, code, folder);
  return { codeHash, bundle: bundleFile(stateDir, codeHash), signature: signatureOf(inputs), inputs };
}

const MOST_REFERENCE_BYTES = 1024 ** 3;

/** The file may have become a pipe or a device since it was listed. */
function readReference(file: string): Buffer {
  try {
    return readFileWithin(file, { roots: null, mostBytes: MOST_REFERENCE_BYTES });
  } catch (cause) {
    if (!(cause instanceof FileRefusal)) throw cause;
    throw new CodedError('skill/unusable', `${file} cannot be read: ${cause.message}`, { cause });
  }
}

/** Changes when one of the files does, or goes. */
export function signatureOf(files: readonly string[]): string {
  return files
    .map((file) => {
      const found = statSync(file, { throwIfNoEntry: false });
      return found === undefined ? `${file} gone` : `${file} ${found.size} ${found.mtimeMs}`;
    })
    .join('\n');
}

/** Complete or not at all: a folder of that name has that content. */
function keep(stateDir: string, codeHash: string, code: string, folder: string): void {
  const target = dirname(bundleFile(stateDir, codeHash));
  if (existsSync(target)) return;
  const next = `${target}.${process.pid}`;
  mkdirSync(next, { recursive: true, mode: 0o700 });
  writeFileSync(join(next, 'skill.mjs'), code, { mode: 0o600 });
  if (existsSync(join(folder, 'references'))) copyTree(join(folder, 'references'), join(next, 'references'));
  try {
    renameSync(next, target);
  } catch (error) {
    // Another worker was first.
    if (!existsSync(target)) throw error;
    rmSync(next, { recursive: true, force: true });
  }
}

function referencesOf(folder: string): readonly string[] {
  const root = join(folder, 'references');
  return existsSync(root) ? listRegularFilesBelow(root).map((path) => join(root, path)) : [];
}
