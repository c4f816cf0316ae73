/** Finds files below a state folder and processes that are left when no run is open. */
import { createHash } from 'node:crypto';
import { existsSync, lstatSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { isSha256 } from '../../domain/units/sha256.ts';

/** Names of files that are written and then renamed: each is half a file while it has this name. */
const HALF = /(?:\.partial|\.new|\.tmp)$|^\.voidbox-partial|\.json\.\d+$/;

/** Every file, folder, link and socket below a folder, as paths relative to it. */
export function entriesBelow(folder: string): readonly string[] {
  const found: string[] = [];
  const walk = (at: string): void => {
    let names: readonly string[];
    try {
      names = readdirSync(at);
    } catch {
      // A folder that disappears during the check has no files left in it.
      return;
    }
    for (const name of names) {
      const path = join(at, name);
      found.push(relative(folder, path));
      if (lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true) walk(path);
    }
  };
  walk(folder);
  return found;
}

/** Files that must not be there while no run is open. */
export function fileLeftovers(stateDir: string): readonly string[] {
  return entriesBelow(stateDir).flatMap((path) => {
    const name = basename(path);
    if (name === 'host-variables.json') return [`${path}: variables that were handed over`];
    if (
      name === 'k.sock' ||
      (path.startsWith('vms/') && lstatSync(join(stateDir, path), { throwIfNoEntry: false })?.isSocket() === true)
    )
      return [`${path}: the socket of a keeper`];
    if (name === 'scratch.img') return [`${path}: the disk of a VM`];
    // A killed writer leaves its file next to the artifacts; nothing reads it, and prune removes it after a day.
    if (name === '.partial' || basename(dirname(path)) === '.partial') return [];
    // A keeper that is killed between the write and the rename leaves this file next to the whole record. Nothing reads
    // it, and it is removed with the VM's folder. A sweep removes such files of the VM itself.
    if (/^vms\/[^/]+\/exec\/[^/]+\/record\.json\.new$/.test(path)) return [];
    // A command line that is killed before it starts its run leaves this folder; prune removes it after a day.
    const [top, run] = path.split('/');
    if (top === 'runs' && run !== undefined && !existsSync(join(stateDir, top, run, 'events.jsonl'))) return [];
    return HALF.test(name) ? [`${path}: half a file`] : [];
  });
}

/** Finds artifacts whose bytes do not match the hash in their name. */
export function brokenArtifacts(stateDir: string): readonly string[] {
  return entriesBelow(join(stateDir, 'artifacts')).flatMap((path) => {
    const name = basename(path);
    if (!isSha256(name)) return [];
    const sha256 = createHash('sha256')
      .update(readFileSync(join(stateDir, 'artifacts', path)))
      .digest('hex');
    return sha256 === name ? [] : [`artifacts/${path}: its bytes have the hash ${sha256}`];
  });
}

type Files = Readonly<Record<string, string>>;

/** Finds the differences between a folder of the host and its expected contents. */
export function folderFindings(folder: string, wanted: Files): readonly string[] {
  return [
    ...strangers(folder, wanted),
    ...Object.entries(wanted).flatMap(([path, text]) => contentFindings(folder, path, (got) => got === text, text)),
  ];
}

/**
 * Does the same for a run that ended in its middle: each file is as before the run or as the run writes it. A new file
 * may contain only the beginning.
 */
export function unfinishedFolderFindings(folder: string, before: Files, after: Files): readonly string[] {
  const isRight = (path: string) => (got: string) =>
    path in before ? got === before[path] || got === after[path] : after[path]!.startsWith(got);
  return [
    ...strangers(folder, { ...before, ...after }),
    ...Object.keys({ ...before, ...after }).flatMap((path) => {
      const mayBeMissing = !(path in before && path in after);
      return mayBeMissing && !isFile(folder, path)
        ? []
        : contentFindings(folder, path, isRight(path), after[path] ?? before[path]!);
    }),
  ];
}

/** Finds files that are not expected, except folders above expected files. */
function strangers(folder: string, wanted: Files): readonly string[] {
  const paths = Object.keys(wanted);
  return entriesBelow(folder)
    .filter((path) => !paths.some((known) => known === path || known.startsWith(`${path}/`)))
    .map((path) => `${path} was not there to be made`);
}

function contentFindings(
  folder: string,
  path: string,
  isRight: (text: string) => boolean,
  wanted: string,
): readonly string[] {
  if (!isFile(folder, path)) return [`${path} is missing`];
  const got = readFileSync(join(folder, path), 'utf8');
  return isRight(got) ? [] : [`${path} holds ${shown(got)}, not ${shown(wanted)}`];
}

/** False also for a path below a file. */
function isFile(folder: string, path: string): boolean {
  return entriesBelow(folder).includes(path) && lstatSync(join(folder, path)).isFile();
}

function shown(text: string): string {
  return text.length <= 2_000
    ? JSON.stringify(text)
    : `${JSON.stringify(text.slice(0, 2_000))} and ${text.length - 2_000} characters more`;
}
