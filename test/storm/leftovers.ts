/** What lies below a state folder and runs beside it when no run is open any more. */
import { createHash } from 'node:crypto';
import { lstatSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';

/** Names of files that are written and then renamed: each is half a file for as long as it lies there. */
const HALF = /(?:\.partial|\.new|\.tmp)$|^\.voidbox-partial|^stack\.json\.\d+$/;

/** Every file, folder, link and socket below a folder, as paths relative to it. */
export function filesBelow(folder: string): readonly string[] {
  const found: string[] = [];
  const walk = (at: string): void => {
    let names: readonly string[];
    try {
      names = readdirSync(at);
    } catch {
      // A folder that goes while it is looked at has nothing left in it.
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
  return filesBelow(stateDir).flatMap((path) => {
    const name = basename(path);
    if (name === 'host-variables.json') return [`${path}: variables that were handed over`];
    if (name === 'k.sock' || (path.startsWith('vms/') && lstatSync(join(stateDir, path), { throwIfNoEntry: false })?.isSocket() === true))
      return [`${path}: the socket of a keeper`];
    if (name === 'scratch.img') return [`${path}: the disk of a VM`];
    // Beside the artifacts a killed writer leaves its file; nothing reads it, and prune takes it after a day.
    if (name === '.partial' || basename(dirname(path)) === '.partial') return [];
    return HALF.test(name) ? [`${path}: half a file`] : [];
  });
}

/** Artifacts whose bytes are not those that their name says. */
export function brokenArtifacts(stateDir: string): readonly string[] {
  return filesBelow(join(stateDir, 'artifacts')).flatMap((path) => {
    const name = basename(path);
    if (!/^[0-9a-f]{64}$/.test(name)) return [];
    const sha256 = createHash('sha256')
      .update(readFileSync(join(stateDir, 'artifacts', path)))
      .digest('hex');
    return sha256 === name ? [] : [`artifacts/${path}: its bytes have the hash ${sha256}`];
  });
}

/** How a folder of the host differs from what it should hold. */
export function folderFindings(folder: string, wanted: Readonly<Record<string, string>>): readonly string[] {
  const files = filesBelow(folder).filter((path) => lstatSync(join(folder, path)).isDirectory() === false);
  const strange = files.filter((path) => !(path in wanted)).map((path) => `${path} was not there to be made`);
  const wrong = Object.entries(wanted).flatMap(([path, text]) => {
    if (!files.includes(path)) return [`${path} is missing`];
    const got = readFileSync(join(folder, path), 'utf8');
    return got === text ? [] : [`${path} holds ${JSON.stringify(got)}, not ${JSON.stringify(text)}`];
  });
  return [...strange, ...wrong];
}
