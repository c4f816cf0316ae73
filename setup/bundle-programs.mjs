/**
 * Build step: `node setup/bundle-programs.mjs` writes dist/cli-bundle/, dist/worker-bundle/ and dist/api-bundle/: the
 * command line, the worker and the HTTP API in few files. They spend most of their start on loading, and Node loads one
 * CommonJS file much faster than a hundred modules. Lazy imports stay lazy: each is in its own file. Names and lines are kept, so that stack traces
 * are readable.
 */
import { execFileSync } from 'node:child_process';
import { renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
/** V8 accepts a cache only with the flags with which it was made. */
const { workerFlags } = await import('../dist/setup/worker-command.js');

const PROGRAMS = [
  {
    target: 'cli-bundle',
    input: { main: 'cli/main.js' },
    // Packages that every run of a light command loads, and the client of Temporal, whose 300 files each command that
    // asks a server loads. Commands load all other packages from node_modules when they need them.
    included: ['yaml', 'commander', '@temporalio/client', '@temporalio/envconfig'],
    // One file, which light commands do not load.
    chunks: [{ name: 'temporal', test: /\/node_modules\/(?!yaml\/|commander\/)/ }],
    // The second one adds its parts to the caches of the first.
    warm: (/** @type {string} */ folder) =>
      ['validate', 'runs'].map((command) => [join(ROOT, 'setup', 'warm-cli.cjs'), join(folder, 'main.cjs'), command]),
  },
  {
    target: 'worker-bundle',
    input: { 'serve-worker': 'workers/serve-worker.js' },
    // Packages that every worker loads, except those of Temporal, which search for files next to their own.
    included: ['yaml', 'zod', '@marcbachmann/cel-js', 're2js', 'fzstd'],
    chunks: [],
    warm: (/** @type {string} */ folder) => [
      [...workerFlags(), join(ROOT, 'setup', 'warm-exports.cjs'), join(folder, 'serve-worker.cjs')],
    ],
  },
  {
    target: 'api-bundle',
    input: { service: 'server/service.js' },
    // Packages that each process of the API loads. It loads those of PostgreSQL when it opens its database.
    included: [
      'yaml',
      'zod',
      'hono',
      'hono/route',
      'hono/http-exception',
      '@hono/node-server',
      '@hono/zod-openapi',
      '@marcbachmann/cel-js',
      're2js',
      'fzstd',
      '@temporalio/client',
      '@temporalio/envconfig',
    ],
    chunks: [],
    warm: (/** @type {string} */ folder) => [[join(ROOT, 'setup', 'warm-exports.cjs'), join(folder, 'service.cjs')]],
  },
];

for (const program of PROGRAMS) await bundleProgram(program);

/** @param {(typeof PROGRAMS)[number]} program */
async function bundleProgram({ target, input, included, chunks, warm }) {
  const entries = Object.entries(input).map(([name, file]) => [name, join(ROOT, 'dist', file)]);
  const bundle = await rolldown({
    input: Object.fromEntries(entries),
    platform: 'node',
    // The packages that an included package needs are included, too.
    external: (id, importer) => /^[@a-z]/.test(id) && !included.includes(id) && !importer?.includes('/node_modules/'),
    // The package's form for Node is CommonJS, which would keep each of its modules in a separate function.
    resolve: { alias: { yaml: join(ROOT, 'node_modules', 'yaml', 'browser', 'index.js') } },
    onLog(level, log) {
      // The worker loads at its start the modules that a command loads when it needs them.
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
      codeSplitting: { groups: chunks },
    });
    for (const args of warm(made)) execFileSync(process.execPath, args, { timeout: 60_000 });
    rmSync(folder, { recursive: true, force: true });
    renameSync(made, folder);
  } finally {
    await bundle.close();
    rmSync(made, { recursive: true, force: true });
  }
}
