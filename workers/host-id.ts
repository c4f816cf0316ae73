/**
 * The id of a VM host: made once, kept in the state folder, part of the host's queue name. The runs that were admitted
 * here name it too, so that a file which is lost or damaged comes back as it was: runs that go on wait on that queue.
 */
import { randomBytes } from 'node:crypto';
import { linkSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runsDir } from '../store/file/layout.ts';

const HOST_ID = /^[A-Za-z0-9-]{1,64}$/;

export function hostId(stateDir: string): string {
  const file = join(stateDir, 'host-id');
  const known = read(file);
  if (known !== null) return known;
  mkdirSync(stateDir, { recursive: true, mode: 0o700 });
  const mine = `${file}.${process.pid}`;
  writeFileSync(mine, `${idOfRuns(stateDir) ?? randomBytes(8).toString('hex')}\n`, { mode: 0o600 });
  putAside(file);
  try {
    // A link fails when the name exists: of two that start at once, the first one's id stands.
    linkSync(mine, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    rmSync(mine, { force: true });
  }
  const id = read(file);
  if (id === null) throw new Error(`${file} does not hold a host id (letters, digits, "-"): remove it and start again`);
  return id;
}

/** What stands there and is no id makes room; another process may have done it, and put an id there. */
function putAside(file: string): void {
  if (read(file) !== null) return;
  try {
    renameSync(file, `${file}.damaged`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}

/** The id under which runs were admitted here; null where there is none that says it. */
function idOfRuns(stateDir: string): string | null {
  const dir = runsDir(stateDir);
  for (const name of namesIn(dir)) {
    try {
      const { hostId: id } = JSON.parse(readFileSync(join(dir, name, 'records', 'admission.json'), 'utf8')) as {
        readonly hostId?: unknown;
      };
      if (typeof id === 'string' && HOST_ID.test(id)) return id;
    } catch {
      // Not admitted, or damaged: another run says it.
    }
  }
  return null;
}

function namesIn(dir: string): readonly string[] {
  try {
    return readdirSync(dir);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

function read(file: string): string | null {
  try {
    const text = readFileSync(file, 'utf8').trim();
    return HOST_ID.test(text) ? text : null;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'EISDIR') return null;
    throw error;
  }
}
