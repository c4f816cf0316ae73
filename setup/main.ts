/**
 * Set-up's own command line. The bootstrap calls it with its start time, so that both print times of one clock:
 * `STARTED_AT_MS kernel [SOURCE]` builds the guest kernel, `STARTED_AT_MS dev-lock` locks the packages of the dev image to
 * the mirror's current versions.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { readEnvironment } from './environment.ts';
import { makeContext } from './pieces/context.ts';
import { lockDevPackages } from './dev-disk/dev-disk.ts';
import { SetupError } from './setup-error.ts';
import { buildVoidboxKernel } from './pieces/voidbox-kernel.ts';

const [startedAt, verbName, ...verbArgs] = process.argv.slice(2);
const startedAtMs = Number(startedAt);

function progress(line: string): void {
  process.stderr.write(`[${((Date.now() - startedAtMs) / 1000).toFixed(1).padStart(6)} s] ${line}\n`);
}

async function main(verb: string | undefined, args: readonly string[]): Promise<void> {
  const env = readEnvironment();
  if (verb === 'kernel') {
    const kernel = await buildVoidboxKernel(
      await makeContext(env, progress, 'voidbox'),
      args[0] === undefined ? null : resolve(args[0]),
    );
    progress(`Linux ${kernel.version} is built; runs use it from now on (${kernel.path})`);
  } else if (verb === 'dev-lock') {
    await writeDevLock();
  } else {
    throw new Error(`unknown verb ${String(verb)}`);
  }
}

async function writeDevLock(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'voidbox-lock-'));
  try {
    const context = await makeContext(readEnvironment(), progress);
    const file = join(context.packageRoot, 'guest', 'dev-image', 'lock.json');
    const { suite, packages } = await lockDevPackages(context, folder);
    await writeFile(file, `${JSON.stringify({ suite, packages }, null, 2)}\n`);
    progress(`${packages.length} packages of Debian ${suite} are locked in ${file}`);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

try {
  await main(verbName, verbArgs);
} catch (error) {
  if (!(error instanceof SetupError)) throw error;
  process.stderr.write(`${error.message}\n${error.remedy === null ? '' : `\n  ${error.remedy}\n`}`);
  process.exitCode = error.exitCode;
}
