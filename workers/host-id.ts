/** The id of a VM host: made once, kept in the state folder, part of the host's queue name. */
import { randomBytes } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export function hostId(stateDir: string): string {
  const file = join(stateDir, 'host-id');
  const known = read(file);
  if (known !== null) return known;
  mkdirSync(stateDir, { recursive: true, mode: 0o700 });
  const mine = `${file}.${process.pid}`;
  writeFileSync(mine, `${randomBytes(8).toString('hex')}\n`, { mode: 0o600 });
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

function read(file: string): string | null {
  try {
    const text = readFileSync(file, 'utf8').trim();
    return /^[A-Za-z0-9-]{1,64}$/.test(text) ? text : null;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}
