/**
 * Checks the machine for the first stage of set-up before npm downloads anything, and reports all problems at once. It
 * is plain JavaScript that old versions of Node can parse, because it reports a Node that is too old.
 */
import { accessSync, constants, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The same versions as `engines` in package.json. */
export const NODE_VERSIONS = '20.19 or newer, but not 21; 22.12 or newer';
/** The space for npm dependencies and compiled code. */
export const CHECKOUT_ROOM_MIB = 700;
const PROGRAMS = [
  { name: 'npm', fix: 'Install npm (it comes with Node from https://nodejs.org; Debian: npm).' },
  { name: 'flock', fix: 'Install util-linux.' },
];
const MIB = 1_048_576;

/**
 * @typedef {{ what: string, fix: string }} Problem
 * @typedef {{ node: string, platform: string, architecture: string, path: string, availableBytes: (folder: string) => number }} Machine
 */

/** @param {string} path of programs @returns {Machine} */
export function thisMachine(path) {
  return {
    node: process.versions.node,
    platform: process.platform,
    architecture: process.arch,
    path,
    availableBytes: (folder) => {
      const { bavail, bsize } = statfsSync(folder);
      return bavail * bsize;
    },
  };
}

/** @param {string} version */
function isFitNode(version) {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return (major === 20 && minor >= 19) || (major === 22 && minor >= 12) || major > 22;
}

/** Lists problems that would stop every verb of a checkout. @param {Machine} machine @returns {Problem[]} */
export function platformProblems(machine) {
  /** @type {Problem[]} */
  const problems = [];
  if (!isFitNode(machine.node))
    problems.push({
      what: `This is Node ${machine.node}, and Voidbox needs ${NODE_VERSIONS}.`,
      fix: 'Install a current Node from https://nodejs.org and retry.',
    });
  if (machine.platform !== 'linux' || machine.architecture !== 'x64')
    problems.push({
      what: `Voidbox runs its micro-VMs on Linux on x86-64 only, and this machine is ${machine.platform} on ${machine.architecture}.`,
      fix: 'Use a Linux machine with an x86-64 CPU.',
    });
  return problems;
}

/**
 * Lists problems that would stop npm and the compiler.
 * @param {string} root
 * @param {Machine} machine
 * @returns {Problem[]}
 */
export function checkoutProblems(root, machine) {
  const problems = platformProblems(machine);
  for (const { name, fix } of PROGRAMS)
    if (!isOnPath(name, machine.path)) problems.push({ what: `There is no ${name} on PATH.`, fix });
  const unwritable = writeProblem(root);
  if (unwritable !== null)
    problems.push({
      what: `The checkout ${root} cannot be written: ${unwritable}.`,
      fix: 'Fix its permissions or its disk, or check it out elsewhere.',
    });
  const available = machine.availableBytes(root);
  if (available < CHECKOUT_ROOM_MIB * MIB)
    problems.push({
      what: `npm dependencies and compiled code take up to ${CHECKOUT_ROOM_MIB} MiB, and the disk of ${root} has ${Math.floor(available / MIB)} MiB free.`,
      fix: 'Free space on that disk, or check it out on another one.',
    });
  return problems;
}

/** @param {string} name @param {string} path */
function isOnPath(name, path) {
  return path.split(':').some((folder) => {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return folder !== '';
    } catch {
      return false;
    }
  });
}

/** @param {string} folder */
function writeProblem(folder) {
  const file = join(folder, `.voidbox-probe-${process.pid}`);
  try {
    writeFileSync(file, 'x', { flag: 'wx' });
    rmSync(file);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** @param {readonly Problem[]} problems not empty */
export function describeProblems(problems) {
  const lines = problems.flatMap(({ what, fix }) => [`- ${what}`, `  fix: ${fix}`]);
  const count = problems.length === 1 ? 'a problem' : `${problems.length} problems`;
  return [`set-up found ${count} and has downloaded nothing`, ...lines].join('\n');
}
