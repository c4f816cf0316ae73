/** A folder of snapshots in a test: its content, and the processes of VMs that make or read a snapshot. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const LIMIT_MS = 60_000;

/** The names of complete snapshots. */
export function listSnapshots(dir: string): readonly string[] {
  return namesIn(dir).filter((name) => !name.startsWith('.'));
}

/** Partial snapshots, and snapshots whose deletion was interrupted. */
export function leftoversIn(dir: string): readonly string[] {
  return namesIn(dir).filter((name) => name.startsWith('.new-') || name.startsWith('.gone-'));
}

/** The bytes of a snapshot that is being made; null if none is. */
export function partialBytes(dir: string): number | null {
  const partial = namesIn(dir).find((name) => name.startsWith('.new-'));
  if (partial === undefined) return null;
  return namesIn(join(dir, partial)).reduce((sum, name) => sum + sizeOf(join(dir, partial, name)), 0);
}

/** Whether a snapshot is written, and waits only for its place. */
export function isPublishing(dir: string): boolean {
  return namesIn(dir).some((name) => name.startsWith('.new-') && existsSync(join(dir, name, 'snapshot.json')));
}

/** Files that change when a snapshot is used. */
const MARKS = ['used', 'failed', 'holders', 'touched'];

/** A hash of the names and the bytes of a snapshot; its marks of use do not count. */
export function hashOf(snapshot: string): string {
  const hash = createHash('sha256');
  for (const name of namesIn(snapshot).filter((each) => !MARKS.includes(each))) {
    hash.update(name).update(readFileSync(join(snapshot, name)));
  }
  return hash.digest('hex');
}

/** Replaces a snapshot by a copy with the same times, which each start compares. */
export function copySnapshot(from: string, to: string): void {
  rmSync(to, { recursive: true, force: true });
  execFileSync('cp', ['-a', from, to]);
}

/**
 * Changes bytes of a file of a snapshot, and keeps its time. The record gets the new hash of a state, so that no check
 * finds the change, unless `keepsHash`.
 */
export function changeInside(
  snapshot: string,
  file: string,
  change: (bytes: Buffer) => void,
  { keepsHash = false }: { readonly keepsHash?: boolean } = {},
): void {
  const script = 'cat > "$1"; touch -r "$2" "$1"';
  const path = join(snapshot, file);
  const bytes = readFileSync(path);
  change(bytes);
  if (file === 'state' && !keepsHash) {
    const record = join(snapshot, 'snapshot.json');
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    writeFileSync(record, readFileSync(record, 'utf8').replace(/"sha256":"[^"]*"/, `"sha256":"${sha256}"`));
  }
  execFileSync('cp', ['-p', path, join(snapshot, 'time')]);
  execFileSync('sh', ['-c', script, 'sh', path, join(snapshot, 'time')], { input: bytes });
  rmSync(join(snapshot, 'time'));
}

/** Lets the record of a snapshot say that it was made this long before. */
export function makeOlder(snapshot: string, byMs: number): void {
  const record = join(snapshot, 'snapshot.json');
  const text = readFileSync(record, 'utf8');
  writeFileSync(
    record,
    text.replace(/(?<="createdAtMs":)\d+/, (atMs) => String(Number(atMs) - byMs)),
  );
}

/** The keepers below a folder of VMs that are alive. */
export function keepersIn(vmsDir: string): readonly number[] {
  return namesIn(vmsDir).flatMap((name) => {
    try {
      const { pid } = JSON.parse(readFileSync(join(vmsDir, name, 'keeper.json'), 'utf8')) as { pid: number };
      return commandOf(pid).some((word) => word.includes(name)) ? [pid] : [];
    } catch {
      return [];
    }
  });
}

/** QEMU's processes below a keeper. `copies` are those that read a snapshot. */
export function vmmsBelow(keeper: number, which: 'all' | 'copies' = 'all'): readonly number[] {
  return descendantsOf(keeper).filter((pid) => {
    const words = commandOf(pid);
    return words[0]?.endsWith('qemu-system-x86_64') === true && (which === 'all' || words.includes('-incoming'));
  });
}

export function descendantsOf(pid: number): readonly number[] {
  try {
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
    return text
      .split(' ')
      .filter(Boolean)
      .flatMap((child) => [Number(child), ...descendantsOf(Number(child))]);
  } catch {
    return [];
  }
}

/** Asks again and again, faster than the steps of a launch, until the answer is neither null nor false nor empty. */
export async function soon<T>(what: string, ask: () => T | null | false | undefined): Promise<T> {
  for (const end = Date.now() + LIMIT_MS; Date.now() < end; await sleep(1)) {
    const answer = ask();
    if (answer !== null && answer !== false && answer !== undefined) return answer;
  }
  throw new Error(`waited ${LIMIT_MS} ms for ${what}`);
}

function commandOf(pid: number): readonly string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return [];
  }
}

export function namesIn(dir: string): readonly string[] {
  try {
    return readdirSync(dir);
  } catch {
    return [];
  }
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
