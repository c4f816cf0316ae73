/**
 * Build step: `node setup/bundle-cli.mjs` writes dist/cli-bundle/, the command line in few files. A light command spends most of its
 * time on loading, and Node loads one CommonJS file in a fraction of what a hundred modules take. Lazy imports stay lazy: each is
 * a file of its own. Names and lines are kept, so that a stack trace can be read.
 */
import { execFileSync } from 'node:child_process';
import { renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const TARGET = join(ROOT, 'dist', 'cli-bundle');
/** Packages that every run of a light command loads; all others are loaded from node_modules by the commands that need them. */
const INCLUDED = ['yaml', 'commander'];

/** @param {string} id */
function isExternal(id) {
  return /^[@a-z]/.test(id) && !INCLUDED.includes(id);
}

const bundle = await rolldown({
  input: { main: join(ROOT, 'dist', 'cli', 'main.js') },
  platform: 'node',
  external: isExternal,
  // The package's form for Node is CommonJS, each of whose modules stays a function of its own.
  resolve: { alias: { yaml: join(ROOT, 'node_modules', 'yaml', 'browser', 'index.js') } },
  onLog(level, log) {
    if (level === 'warn') throw new Error(log.message);
  },
});
const made = `${TARGET}.${process.pid}`;
try {
  await bundle.write({
    dir: made,
    format: 'cjs',
    minify: { mangle: false, compress: false, codegen: true },
    entryFileNames: '[name].cjs',
    chunkFileNames: '[name]-[hash].cjs',
  });
  execFileSync(process.execPath, [join(ROOT, 'setup', 'warm-cli.cjs'), join(made, 'main.cjs')], { timeout: 60_000 });
  rmSync(TARGET, { recursive: true, force: true });
  renameSync(made, TARGET);
} finally {
  await bundle.close();
  rmSync(made, { recursive: true, force: true });
}
