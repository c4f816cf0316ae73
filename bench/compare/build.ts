/** A build that takes part in a comparison: this checkout, another folder, or a revision that is built first. */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { HostPieces } from '../../setup/pieces/host-pieces.ts';

export interface Build {
  /** Such as "base". */
  readonly name: string;
  /** The folder of its checkout, compiled. */
  readonly root: string;
  readonly pieces: HostPieces;
}

/**
 * The checkout of a build, compiled.
 * @param wanted a folder with a checkout, or a revision of the repository of `root`, which is cloned and built below `workDir`
 * @throws Error if it is neither, or if its build fails
 */
export function prepareCheckout(wanted: string, root: string, workDir: string, say: (line: string) => void): string {
  const isFolder = existsSync(join(wanted, 'package.json'));
  const folder = isFolder ? resolve(wanted) : join(workDir, 'base');
  if (!isFolder) {
    const revision = findRevision(wanted, root);
    say(`cloning ${wanted} (${revision.slice(0, 12)})`);
    execFileSync('git', ['clone', '--quiet', '--no-checkout', root, folder]);
    execFileSync('git', ['-C', folder, 'checkout', '--quiet', '--detach', revision]);
  }
  say(`building ${folder}`);
  execFileSync(process.execPath, [join(folder, 'setup', 'bootstrap.mjs'), 'build'], { stdio: 'inherit' });
  return folder;
}

function findRevision(wanted: string, root: string): string {
  try {
    return execFileSync('git', ['-C', root, 'rev-parse', '--verify', '--end-of-options', `${wanted}^{commit}`], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim();
  } catch (error) {
    throw new Error(
      `${JSON.stringify(wanted)} is neither a folder with a checkout nor a revision of ${root}. Name a tag, a commit or a folder.`,
      { cause: error },
    );
  }
}

/** The pieces of a build, resolved by its own set-up, because each build has its own keeper and guest. */
export function resolvePieces(root: string): HostPieces {
  const setup = join(root, 'dist', 'setup');
  const script = `
    const { readEnvironment } = await import(${JSON.stringify(join(setup, 'environment.js'))});
    const { resolveHostPieces } = await import(${JSON.stringify(join(setup, 'resolve.js'))});
    const onProgress = (line) => console.error(line);
    const pieces = await resolveHostPieces(readEnvironment(), { install: true, kernelKind: 'debian', onProgress });
    process.stdout.write(JSON.stringify(pieces));`;
  const text = execFileSync(process.execPath, ['--input-type=module', '-e', script], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  return JSON.parse(text) as HostPieces;
}
