/** The folder that a build fills: complete, or as it was before. */
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, renameSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { CodedError } from '../../../domain/errors/coded-error.ts';

/** The key of SKILL.md's metadata that says that a build made it. */
export const BUILT_WITH = 'built-with';

/** Where the folder is, behind links. */
export function realTarget(folder: string): string {
  return existsSync(folder) ? realpathSync(folder) : folder;
}

/**
 * A folder may be filled when there is none, when it holds nothing but a package.json, or when a build filled it before.
 * @throws CodedError `skill/output-taken`
 */
export function checkTarget(folder: string, force: boolean): void {
  const found = statSync(folder, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isDirectory()) throw new CodedError('skill/output-taken', `${folder} is there and is no folder`);
  if (force || readdirSync(folder).every((name) => name === 'package.json') || isBuilt(folder)) return;
  throw new CodedError('skill/output-taken', `${folder} holds files, and no build made it`);
}

function isBuilt(folder: string): boolean {
  const file = join(folder, 'SKILL.md');
  if (!existsSync(file)) return false;
  const [, head = ''] = readFileSync(file, 'utf8').split(/^---$/m);
  return new RegExp(`^ {2}${BUILT_WITH}: `, 'm').test(head);
}

/**
 * Fills a folder beside the target and puts it in the target's place. What stands in the target and is not `own` comes along.
 * @param own  of a path in the folder, with `/`: whether it is the build's, who writes it anew or leaves it out
 * @param fill  may take as long as it likes: the target is as it was meanwhile
 */
export async function replaceFolder(target: string, own: (path: string) => boolean, fill: (folder: string) => Promise<void>): Promise<void> {
  const parent = dirname(target);
  mkdirSync(parent, { recursive: true });
  const beside = mkdtempSync(join(parent, `.${basename(target)}.build-`));
  try {
    const next = join(beside, 'next');
    // mkdtemp's 0700 is right while it is being made; the skill is for whoever may read the folder around it.
    mkdirSync(next, { mode: 0o755 });
    if (existsSync(target)) carryOver(target, next, own);
    await fill(next);
    exchange(target, next, join(beside, 'before'));
  } finally {
    rmSync(beside, { recursive: true, force: true });
  }
}

function carryOver(from: string, to: string, own: (path: string) => boolean, prefix = ''): void {
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const path = `${prefix}${entry.name}`;
    if (own(path)) continue;
    const [source, copy] = [join(from, entry.name), join(to, entry.name)];
    // Folders are walked only where the build has something in them.
    if (entry.isDirectory() && (path === 'bin' || path === 'scripts')) {
      mkdirSync(copy);
      carryOver(source, copy, own, `${path}/`);
      if (readdirSync(copy).length === 0) rmSync(copy, { recursive: true });
    } else cpSync(source, copy, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true });
  }
}

function exchange(target: string, next: string, before: string): void {
  if (!existsSync(target)) return renameSync(next, target);
  renameSync(target, before);
  try {
    renameSync(next, target);
  } catch (error) {
    renameSync(before, target);
    throw error;
  }
}
