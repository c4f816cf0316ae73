/**
 * Shows which processes of `voidbox serve` run with a state folder, and where. Each has a file with its addresses, which
 * it keeps open. The kernel tells whether the process of a file still has it open, so a file of a killed process shows
 * nothing. No command connects to the addresses: other clients may.
 */
import {
  closeSync,
  constants,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
  type BigIntStats,
} from 'node:fs';
import { join } from 'node:path';
import type { ApiListener } from '../embedded/control.ts';
import { hasOpen, isOwnScript } from '../embedded/lock-holder.ts';

const SCRIPT = '/server/serve.js';
/** 8 addresses of at most 300 characters, and their problems. */
const MOST_BYTES = 64 * 1024;

export interface ServedAddresses {
  readonly sockets: readonly string[];
  readonly listeners: readonly ApiListener[];
}

export interface RunningService extends ServedAddresses {
  readonly pid: number;
}

function findFolder(stateDir: string): string {
  return join(stateDir, 'serving');
}

/** Shows the addresses until this process ends, or until `dispose`. */
export function announceService(stateDir: string, addresses: ServedAddresses): { dispose(): void } {
  const folder = findFolder(stateDir);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  removeStale(folder);
  const file = join(folder, `${process.pid}.json`);
  rmSync(file, { force: true });
  const fd = openSync(file, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600);
  writeFileSync(fd, JSON.stringify({ sockets: addresses.sockets, listeners: addresses.listeners }));
  return {
    dispose() {
      rmSync(file, { force: true });
      closeSync(fd);
    },
  };
}

/** @param script  the end of the path of the script that such a process runs; another one is for tests */
export function listServices(stateDir: string, script = SCRIPT): readonly RunningService[] {
  const folder = findFolder(stateDir);
  return listFiles(folder).flatMap(({ pid, file, facts }) => {
    if (!isOwnScript(pid, script) || !hasOpen(pid, facts)) return [];
    const addresses = readAddresses(file, facts);
    return addresses === null ? [] : [{ pid: Number(pid), ...addresses }];
  });
}

interface ServingFile {
  readonly pid: string;
  readonly file: string;
  readonly facts: BigIntStats;
}

function listFiles(folder: string): readonly ServingFile[] {
  let names: readonly string[];
  try {
    names = readdirSync(folder);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return [];
    throw error;
  }
  return names.flatMap((name) => {
    const pid = /^(\d{1,10})\.json$/.exec(name)?.[1];
    const file = join(folder, name);
    const facts = pid === undefined ? undefined : statSync(file, { bigint: true, throwIfNoEntry: false });
    return pid === undefined || facts === undefined || !facts.isFile() ? [] : [{ pid, file, facts }];
  });
}

function removeStale(folder: string): void {
  for (const { pid, file, facts } of listFiles(folder)) if (!hasOpen(pid, facts)) rmSync(file, { force: true });
}

/** Null: the file is not whole. */
function readAddresses(file: string, { size }: BigIntStats): ServedAddresses | null {
  if (size > MOST_BYTES) return null;
  try {
    const { sockets, listeners } = JSON.parse(readFileSync(file, 'utf8')) as Partial<Record<string, unknown>>;
    if (!Array.isArray(sockets) || !sockets.every((each) => typeof each === 'string')) return null;
    if (!Array.isArray(listeners) || !listeners.every(isListener)) return null;
    return { sockets, listeners };
  } catch {
    return null;
  }
}

function isListener(value: unknown): value is ApiListener {
  const { url, problem } = (value ?? {}) as Partial<Record<string, unknown>>;
  return typeof url === 'string' && (problem === null || typeof problem === 'string');
}
