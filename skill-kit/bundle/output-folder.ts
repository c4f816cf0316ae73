/** The folder that a build fills: complete, or as it was before. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { readFileWithin } from '../../files/open-file.ts';

/** The key in SKILL.md's metadata that marks a folder as built. */
export const BUILT_WITH = 'built-with';
const ENDING = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Where the folder is, behind links. */
export function resolveTarget(folder: string): string {
  return existsSync(folder) ? realpathSync(folder) : folder;
}

/**
 * Checks that a folder may be filled: it is missing, holds only a package.json, or was filled by an earlier build.
 * @throws CodedError `skill/output-taken`
 */
export function checkTarget(folder: string, force: boolean): void {
  const found = statSync(folder, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isDirectory()) throw new CodedError('skill/output-taken', `${folder} exists and is not a folder`);
  if (force || readdirSync(folder).every((name) => name === 'package.json') || isBuilt(folder)) return;
  throw new CodedError('skill/output-taken', `${folder} holds files that no build made`);
}

const MOST_SKILL_BYTES = 64 * 1024 * 1024;

function isBuilt(folder: string): boolean {
  const file = join(folder, 'SKILL.md');
  if (!existsSync(file)) return false;
  const [, head = ''] = readFileWithin(file, { roots: null, mostBytes: MOST_SKILL_BYTES })
    .toString('utf8')
    .split(/^---$/m);
  return new RegExp(`^ {2}${BUILT_WITH}: `, 'm').test(head);
}

/**
 * Fills a new folder next to the target and then replaces the target with it. Files in the target that are not `own`
 * are kept. Several builds may do so at once: the last build's folder remains, and no kept file is lost.
 * @param own  tells whether a path in the folder (with `/`) belongs to the build, which writes it again or drops it
 * @param fill  may take any time, because the target is unchanged until it ends. A signal that would end this process
 *   aborts the given signal, and ends the process once all temporary files are removed
 */
export async function replaceFolder(
  target: string,
  own: (path: string) => boolean,
  fill: (folder: string, interrupted: AbortSignal) => Promise<void>,
): Promise<void> {
  const parent = dirname(target);
  mkdirSync(parent, { recursive: true });
  const beside = mkdtempSync(join(parent, `.${basename(target)}.build-`));
  const moves = new Moves();
  const interruption = new Interruption();
  try {
    const next = join(beside, 'next');
    // mkdtemp's 0700 is right while the folder is being filled. The result must be readable by all users who can read
    // its parent.
    mkdirSync(next, { mode: 0o755 });
    await fill(next, interruption.signal);
    interruption.signal.throwIfAborted();
    exchange(target, next, beside, own, moves);
  } catch (error) {
    if (!moves.undo())
      throw new CodedError(
        'skill/output-taken',
        `${target} could not be restored; its former contents are in ${beside}`,
        { cause: error },
      );
    rmSync(beside, { recursive: true, force: true });
    throw error;
  } finally {
    interruption.over();
  }
  rmSync(beside, { recursive: true, force: true });
}

/** Signals that would end this process, held back until there is nothing to clear away. */
class Interruption {
  readonly #controller = new AbortController();
  #caught: NodeJS.Signals | null = null;
  readonly #note = (signal: NodeJS.Signals): void => {
    this.#caught = signal;
    this.#controller.abort();
  };

  constructor() {
    for (const signal of ENDING) process.on(signal, this.#note);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  over(): void {
    for (const signal of ENDING) process.off(signal, this.#note);
    if (this.#caught !== null) process.kill(process.pid, this.#caught);
  }
}

/** As `work`, with what the file system refuses as an error that names the folder. @throws CodedError `skill/output-taken` */
export async function codeOutputErrors<T>(folder: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Error) || !('syscall' in error)) throw error;
    throw new CodedError('skill/output-taken', `${folder} cannot be built: ${error.message}`, { cause: error });
  }
}

class Moves {
  readonly #done: { readonly from: string; readonly to: string }[] = [];

  move(from: string, to: string): void {
    renameSync(from, to);
    this.#done.push({ from, to });
  }

  /** False when something could not go back. */
  undo(): boolean {
    let isBack = true;
    for (const { from, to } of this.#done.toReversed()) {
      try {
        renameSync(to, from);
      } catch {
        isBack = false;
      }
    }
    return isBack;
  }
}

function exchange(target: string, next: string, beside: string, own: (path: string) => boolean, moves: Moves): void {
  for (let round = 0; ; round += 1) {
    const before = join(beside, `before-${round}`);
    if (attemptUnless(() => moves.move(target, before), 'ENOENT')) moveForeignFiles(before, next, own, moves);
    // Another build's folder may exist there now; the next round replaces it.
    if (attemptUnless(() => renameSync(next, target), 'ENOTEMPTY', 'EEXIST')) return;
  }
}

/** False when it failed in one of these ways. */
function attemptUnless(work: () => void, ...codes: readonly string[]): boolean {
  try {
    work();
    return true;
  } catch (error) {
    if (codes.includes((error as NodeJS.ErrnoException).code ?? '')) return false;
    throw error;
  }
}

/** Moves files instead of copying them, so that each exists once, even if another build runs at the same time. */
function moveForeignFiles(from: string, to: string, own: (path: string) => boolean, moves: Moves, prefix = ''): void {
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const path = `${prefix}${entry.name}`;
    if (own(path)) continue;
    const [source, goal] = [join(from, entry.name), join(to, entry.name)];
    // Folders are walked only if the build has files in them.
    if (entry.isDirectory() && (path === 'bin' || path === 'scripts')) {
      mkdirSync(goal, { recursive: true });
      moveForeignFiles(source, goal, own, moves, `${path}/`);
      if (readdirSync(goal).length === 0) rmdirSync(goal);
    } else moves.move(source, goal);
  }
}
