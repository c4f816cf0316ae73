/**
 * The folder for temporary files of `npm test`. Tests make and remove some hundred thousand files, and none of them
 * outlives its test. In memory this takes a quarter less CPU time than on some disks.
 * @see docs/adr/0164-temporary-files-of-tests-lie-in-memory.md
 */
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';

const MEMORY_FOLDER = '/dev/shm';
/** Before the id of the process whose folder it is. */
const PREFIX = 'vb-';
/** In the folder: the namespace of that id. */
const NAMESPACE_FILE = '.pid-namespace';
/** `TMPFS_MAGIC` of Linux. */
const TMPFS = 0x01021994;
const GIB = 1024 ** 3;
/** The disks of VMs, databases and installed packages of all files that run at once. */
const NEEDED_ROOM_GIB = 8;
/** The folder, and the VMs, servers and processes of tests beside it. */
const NEEDED_MEMORY_GIB = 16;

/**
 * Returns why temporary files of tests lie on the disk, or null if they may lie in memory.
 * @param {{ type: number, freeBytes: number, availableBytes: number, mounts: string }} host `mounts` as in /proc/self/mounts
 * @returns {string | null}
 */
export function refuseMemory({ type, freeBytes, availableBytes, mounts }) {
  if (type !== TMPFS) return `${MEMORY_FOLDER} is no tmpfs`;
  if (freeBytes < NEEDED_ROOM_GIB * GIB)
    return `${MEMORY_FOLDER} has ${(freeBytes / GIB).toFixed(1)} GiB of room, and ${NEEDED_ROOM_GIB} are needed`;
  if (availableBytes < NEEDED_MEMORY_GIB * GIB)
    return `${(availableBytes / GIB).toFixed(1)} GiB of memory are available, and ${NEEDED_MEMORY_GIB} are needed`;
  const options = mounts
    .split('\n')
    .map((line) => line.split(' '))
    .findLast(([, place]) => place === MEMORY_FOLDER)?.[3];
  return options?.split(',').includes('noexec') ? `no program can be started in ${MEMORY_FOLDER}` : null;
}

/**
 * Makes a folder in memory for temporary files of this process and its children, unless TMPDIR names one. Returns a
 * function that removes it.
 * @param {NodeJS.ProcessEnv} env gets TMPDIR
 * @param {(line: string) => void} progress
 * @returns {() => void}
 */
export function enterTestFolder(env, progress) {
  removeLeftFolders(MEMORY_FOLDER);
  // Sockets of tests lie in it, and their paths have at most 107 bytes, so its name is short.
  const folder = join(MEMORY_FOLDER, `${PREFIX}${process.pid}`);
  const refused = env['TMPDIR'] === undefined ? (lookAtHost() ?? make(folder)) : `TMPDIR is ${env['TMPDIR']}`;
  if (refused !== null) {
    progress(`tests: temporary files lie on the disk, because ${refused}`);
    return () => undefined;
  }
  env['TMPDIR'] = folder;
  return () => {
    delete env['TMPDIR'];
    const problem = remove(folder);
    if (problem !== null) progress(`tests: ${folder} stays in memory: ${problem}`);
  };
}

/**
 * Returns the environment for tests that ask what a disk does.
 * @param {NodeJS.ProcessEnv} env
 * @returns {NodeJS.ProcessEnv}
 */
export function withoutTestFolder(env) {
  const { TMPDIR: folder, ...others } = env;
  return folder === join(MEMORY_FOLDER, `${PREFIX}${process.pid}`) ? others : env;
}

/**
 * Removes the folders of calls of this user that were killed, because they fill the memory. A folder of another user stays:
 * its owner can exchange what lies in it while it is removed. So does one of another namespace of process ids, where its
 * process may live.
 * @param {string} place
 */
export function removeLeftFolders(place) {
  for (const name of existsSync(place) ? readdirSync(place) : []) {
    const pid = name.startsWith(PREFIX) ? Number(name.slice(PREFIX.length)) : Number.NaN;
    const folder = join(place, name);
    if (Number.isSafeInteger(pid) && pid > 0 && isOwn(folder) && !existsSync(`/proc/${pid}`)) remove(folder);
  }
}

/** @param {string} folder */
function isOwn(folder) {
  try {
    const stat = lstatSync(folder);
    const isOfUser = stat.isDirectory() && stat.uid === process.getuid?.();
    return isOfUser && readFileSync(join(folder, NAMESPACE_FILE), 'utf8') === pidNamespace();
  } catch {
    return false;
  }
}

function pidNamespace() {
  return readlinkSync('/proc/self/ns/pid');
}

/** Makes a folder as /tmp is, because tests start programs as other users. @param {string} folder @returns {string | null} why it cannot */
function make(folder) {
  try {
    mkdirSync(folder);
    writeFileSync(join(folder, NAMESPACE_FILE), pidNamespace());
    chmodSync(folder, 0o1777);
    return null;
  } catch (error) {
    return String(error);
  }
}

/** @param {string} folder @returns {string | null} why it cannot */
function remove(folder) {
  try {
    rmSync(folder, { recursive: true, force: true });
    return null;
  } catch (error) {
    return String(error);
  }
}

function lookAtHost() {
  try {
    const { type, bavail, bsize } = statfsSync(MEMORY_FOLDER);
    const available = /^MemAvailable: +(\d+) kB$/m.exec(readFileSync('/proc/meminfo', 'utf8'))?.[1] ?? '0';
    const mounts = readFileSync('/proc/self/mounts', 'utf8');
    return refuseMemory({ type, freeBytes: bavail * bsize, availableBytes: Number(available) * 1024, mounts });
  } catch (error) {
    return String(error);
  }
}
