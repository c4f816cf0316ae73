/**
 * Durable sessions need a Temporal client, which a skill's bundle does not contain. So the transports find an installed
 * Voidbox at run time, and import its client by a path that no bundler can follow. The command line and the MCP server
 * both do so. A child process for each call would start Node and load the client again each time, which an MCP server
 * does once.
 */
import { accessSync, constants, existsSync, realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, dirname, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { DURABLE_DOOR, type DurableDoor, type DurableSessions } from '../../domain/step-machine/durable-port.ts';
import type { SkillDefinition } from '../../domain/step-machine/definition.ts';
import { readEnvironment, originalVariables } from '../../setup/environment.ts';
import { skillDirOf } from '../prompt/reference-loader.ts';
import { runOrigin } from '../bundle/run-origin.ts';
import { readPackageFile } from '../bundle/package-file.ts';

/** A bundle, because a call of a skill's own command line would spend most of its time on loading the client's modules. */
const DOOR = 'dist/door-bundle/skill-door.cjs';
const LOADER = 'bin/load-cached.cjs';
/** The entry files of a skill's folder that workers know. */
const ENTRIES = ['skill.ts', 'skill.mts', 'skill.js', 'skill.mjs'];

/** An error that the user can repair. */
export class DurableError extends Error {
  readonly remedy: string;
  constructor(message: string, remedy: string) {
    super(`${message} ${remedy}`);
    this.remedy = remedy;
  }
}

/** @throws DurableError when there is no Voidbox, or one that does not fit */
export async function openDurable(
  { name, version }: SkillDefinition,
  script: string | null,
  onProgress: (line: string) => void,
): Promise<DurableSessions> {
  if (script === null) {
    throw new DurableError(
      'Durable sessions need the script that the skill came from, for a worker to load it.',
      'Run the skill as a script.',
    );
  }
  const origin = runOrigin();
  const root = origin?.voidboxRoot ?? findInstalledVoidbox(script);
  const door = loadDoor(root);
  if (door.DURABLE_DOOR !== DURABLE_DOOR) {
    throw new DurableError(
      `The Voidbox in ${root} does not fit this skill (its door is ${door.DURABLE_DOOR}, not ${DURABLE_DOOR}).`,
      'Install the version that the skill was built with.',
    );
  }
  if (door.TAKES_VARIABLES !== true) {
    throw new DurableError(
      `The Voidbox in ${root} is older than this skill, and cannot receive its variables.`,
      'Install the version that the skill was built with.',
    );
  }
  return door.openDurableSessions(
    { name, version, entry: origin?.entry ?? entryOf(script) },
    onProgress,
    originalVariables(),
  );
}

function loadDoor(root: string): DurableDoor {
  const { loadCached } = createRequire(import.meta.url)(join(root, LOADER)) as {
    loadCached(file: string): { exports: DurableDoor };
  };
  return loadCached(join(root, DOOR)).exports;
}

/**
 * Returns the file from which a worker loads the skill: the `skill.ts` (or the like) next to or above the script, or
 * else the script.
 */
export function entryOf(script: string): string {
  const path = realpathSync(script);
  const own = dirname(path);
  const found = [own, dirname(own), skillDirOf(path)]
    .flatMap((dir) => ENTRIES.map((entry) => join(dir, entry)))
    .find((file) => existsSync(file));
  return found ?? path;
}

/** Returns the package's folder. @throws DurableError naming the searched places */
function findInstalledVoidbox(script: string): string {
  const { path, voidboxBin } = readEnvironment();
  if (voidboxBin !== null) {
    const root = rootAbove(voidboxBin);
    if (root !== null) return root;
    throw new DurableError(
      `VOIDBOX_BIN is ${voidboxBin}, which is not the \`voidbox\` of an installation.`,
      'Set it to the path of bin/voidbox.js, or unset it.',
    );
  }
  const found =
    rootAbove(fileURLToPath(import.meta.url)) ??
    rootOfModule(script) ??
    rootOfModule(join(process.cwd(), 'any')) ??
    rootOnPath(path);
  if (found !== null) return found;
  throw new DurableError(
    `Durable sessions need Voidbox, which was found neither in the node_modules of ${dirname(script)} or ${process.cwd()}, nor as \`voidbox\` on the PATH.`,
    'Install it (npm install voidbox), or set VOIDBOX_BIN to the path of its bin/voidbox.js.',
  );
}

function rootOfModule(from: string): string | null {
  try {
    return rootAbove(createRequire(pathToFileURL(resolve(from))).resolve('voidbox/package.json'));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'MODULE_NOT_FOUND' || code === 'ERR_PACKAGE_PATH_NOT_EXPORTED') return null;
    throw error;
  }
}

function rootOnPath(path: string): string | null {
  const found = path
    .split(delimiter)
    .map((dir) => join(dir, 'voidbox'))
    .find((file) => isExecutable(file));
  return found === undefined ? null : rootAbove(found);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/**
 * Returns the root of the package that contains a file, following the links that `npm` makes. Null if there is no
 * package, or it has no client for skills.
 */
function rootAbove(file: string): string | null {
  if (!existsSync(file)) return null;
  for (let dir = dirname(realpathSync(file)); ; dir = dirname(dir)) {
    const manifest = join(dir, 'package.json');
    if (
      existsSync(join(dir, DOOR)) &&
      existsSync(manifest) &&
      (readPackageFile(manifest) as { name?: unknown }).name === 'voidbox'
    )
      return dir;
    if (dir === dirname(dir)) return null;
  }
}
