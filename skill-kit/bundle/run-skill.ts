/** A skill's own command line, from its source. */
import { spawn } from 'node:child_process';
import { rm, writeFile } from 'node:fs/promises';
import { constants } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { bundle } from './bundle.ts';
import { findEntry } from './find-entry.ts';
import { programOf } from './program.ts';
import { temporaryFolder } from './temporary-folder.ts';

/**
 * Runs what `skill build` would make in a separate process with this process's standard streams. References are read
 * from the source's folder. The same source gives the same code, so that sessions continue from call to call.
 * @param path  the entry, or the folder of the skill
 * @param args  as the built skill takes them
 * @returns its exit code, or 128 and the number of the signal that ended it
 * @throws CodedError `skill/not-found` or `skill/unusable`, before anything has run
 */
export async function runFromSource(path: string, args: readonly string[], cwd: string): Promise<number> {
  const entry = findEntry(path, cwd);
  const { code } = await bundle(entry, {
    program: programOf(entry, { folder: dirname(entry) }),
    // An error that ends the process shows the author's own lines.
    output: { sourcemap: 'inline', sourcemapPathTransform: (source, map) => resolve(dirname(map), source) },
  });
  const folder = await temporaryFolder();
  try {
    const file = join(folder, 'skill.mjs');
    await writeFile(file, code, { mode: 0o600 });
    return await run(['--enable-source-maps', file, ...args], cwd);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Lives until its child has ended, so that the child's code is there as long as it may be needed. */
async function run(args: readonly string[], cwd: string): Promise<number> {
  const child = spawn(process.execPath, args, { cwd, stdio: 'inherit' });
  // A terminal's Ctrl-C reaches the child directly, and the child decides what it means.
  const ignore = (): void => undefined;
  const forward = (signal: NodeJS.Signals): void => void child.kill(signal);
  process.on('SIGINT', ignore);
  process.on('SIGTERM', forward);
  process.on('SIGHUP', forward);
  try {
    return await new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('exit', (code, signal) => resolve(code ?? 128 + constants.signals[signal!]));
    });
  } finally {
    process.off('SIGINT', ignore);
    process.off('SIGTERM', forward);
    process.off('SIGHUP', forward);
  }
}
