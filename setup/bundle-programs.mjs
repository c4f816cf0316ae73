/**
 * Build step: `node setup/bundle-programs.mjs` writes dist/cli-bundle/ and dist/worker-bundle/, the command line and the worker in few
 * files. Both spend most of their start on loading, and Node loads one CommonJS file in a fraction of what a hundred modules take.
 * Lazy imports stay lazy: each is a file of its own. Names and lines are kept, so that a stack trace can be read.
 */
import { execFileSync } from 'node:child_process';
import { renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
/** V8 takes a cache only with the flags that it was made with. */
const { workerFlags } = await import('../dist/setup/worker-command.js');

const PROGRAMS = [
  {
    target: 'cli-bundle',
    input: { main: 'cli/main.js' },
    // Packages that every run of a light command loads; all others are loaded from node_modules by the commands that need them.
    included: ['yaml', 'commander'],
    warm: (/** @type {string} */ folder) => [join(ROOT, 'setup', 'warm-cli.cjs'), join(folder, 'main.cjs')],
  },
  {
    target: 'worker-bundle',
    input: { 'serve-worker': 'workers/serve-worker.js' },
    // Packages that every worker loads, without those of Temporal, which look for files beside their own.
    included: ['yaml', 'zod', '@marcbachmann/cel-js', 're2js', 'fzstd'],
    warm: (/** @type {string} */ folder) => [
      ...workerFlags(),
      join(ROOT, 'setup', 'warm-worker.cjs'),
      join(folder, 'serve-worker.cjs'),
    ],
  },
];

for (const program of PROGRAMS) await bundleProgram(program);

/** @param {(typeof PROGRAMS)[number]} program */
async function bundleProgram({ target, input, included, warm }) {
  const entries = Object.entries(input).map(([name, file]) => [name, join(ROOT, 'dist', file)]);
  const bundle = await rolldown({
    input: Object.fromEntries(entries),
    platform: 'node',
    external: (id) => /^[@a-z]/.test(id) && !included.includes(id),
    // The package's form for Node is CommonJS, each of whose modules stays a function of its own.
    resolve: { alias: { yaml: join(ROOT, 'node_modules', 'yaml', 'browser', 'index.js') } },
    onLog(level, log) {
      // The worker loads at its start what a command loads when it needs it.
      if (level === 'warn' && log.code !== 'INEFFECTIVE_DYNAMIC_IMPORT') throw new Error(log.message);
    },
  });
  const folder = join(ROOT, 'dist', target);
  const made = `${folder}.${process.pid}`;
  try {
    await bundle.write({
      dir: made,
      format: 'cjs',
      minify: { mangle: false, compress: false, codegen: true },
      entryFileNames: '[name].cjs',
      chunkFileNames: '[name]-[hash].cjs',
    });
    execFileSync(process.execPath, warm(made), { timeout: 60_000 });
    rmSync(folder, { recursive: true, force: true });
    renameSync(made, folder);
  } finally {
    await bundle.close();
    rmSync(made, { recursive: true, force: true });
  }
}
