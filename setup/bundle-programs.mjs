/**
 * Build step: `node setup/bundle-programs.mjs` writes dist/cli-bundle/, dist/worker-bundle/, dist/api-bundle/,
 * dist/stack-bundle/ and dist/door-bundle/: the command line, the worker, the HTTP API, the supervisor of the embedded stack and the door of durable sessions in few files. They spend most of their start on loading, and Node loads one
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
    input: { main: 'dist/cli/main.js' },
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
    // The second one is the thread in which the SDK of Temporal runs workflows.
    input: {
      'serve-worker': 'dist/workers/serve-worker.js',
      'workflow-thread': 'node_modules/@temporalio/worker/lib/workflow/workflow-worker-thread.js',
    },
    // Packages that every worker loads.
    included: [
      'yaml',
      'zod',
      '@marcbachmann/cel-js',
      're2js',
      'fzstd',
      '@temporalio/worker',
      '@temporalio/activity',
      '@temporalio/client',
      '@temporalio/common',
      '@temporalio/envconfig',
    ],
    chunks: [],
    warm: (/** @type {string} */ folder) =>
      ['serve-worker.cjs', 'workflow-thread.cjs'].map((file) => [
        ...workerFlags(),
        join(ROOT, 'setup', 'warm-exports.cjs'),
        join(folder, file),
      ]),
  },
  {
    target: 'api-bundle',
    input: { service: 'dist/server/service.js' },
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
  {
    target: 'stack-bundle',
    input: { supervise: 'dist/workers/embedded/supervise.js' },
    // It loads the client of Temporal when it needs it.
    included: ['yaml', 'zod', '@temporalio/client', '@temporalio/envconfig'],
    chunks: [],
    warm: (/** @type {string} */ folder) => [[join(ROOT, 'setup', 'warm-exports.cjs'), join(folder, 'supervise.cjs')]],
  },
  {
    target: 'door-bundle',
    // Each call of a skill's own command line loads it.
    input: { 'skill-door': 'dist/client/skill-door.js' },
    included: ['yaml', 'zod', 'fzstd', '@temporalio/client', '@temporalio/envconfig'],
    chunks: [],
    warm: (/** @type {string} */ folder) => [[join(ROOT, 'setup', 'warm-exports.cjs'), join(folder, 'skill-door.cjs')]],
  },
];

/** Packages of the SDK that search for files next to their own, or that only its bundler of workflows needs. */
const OUTSIDE = ['source-map', 'webpack', 'memfs', 'unionfs', '@swc/core'];

/** Finds a file of a package that the SDK needs where the SDK would find it, which may be another version than Voidbox's own. */
const fromWorker = (/** @type {string} */ id) =>
  `require.resolve('${id}', { paths: [require.resolve('@temporalio/worker/package.json')] })`;

/** The SDK finds some things by the place of its files, which a bundle changes: a file, a text in it, and its replacement. */
const PLACES = /** @type {const} */ ([
  [
    '@temporalio/core-bridge/common.js',
    "path.resolve(__dirname, 'releases'",
    `path.resolve(path.dirname(${fromWorker('@temporalio/core-bridge/package.json')}), 'releases'`,
  ],
  ['@temporalio/worker/lib/workflow/vm-shared.js', 'require("source-map")', `require(${fromWorker('source-map')})`],
  [
    '@temporalio/worker/lib/workflow/threaded-vm.js',
    "require.resolve('./workflow-worker-thread')",
    '`${__dirname}/../../bin/workflow-thread.cjs`',
  ],
]);

/** Where the SDK makes the messages of Temporal's API, of which a process needs some. */
const MESSAGES = /** @type {const} */ ([
  '@temporalio/proto/protos/json-module.js',
  '\n.addJSON({',
  `;\nrequire(${JSON.stringify(join(ROOT, 'setup', 'lazy-messages.cjs'))}).addLazily($protobuf, $root, {`,
]);

/** The SDK's bundler of workflows loads webpack. A worker needs it only if the build's bundle of workflows is missing, but compares the names of its interceptors with the bundler's. */
const BUNDLER = '@temporalio/worker/lib/workflow/bundler';
const LAZY_BUNDLER = `exports.defaultWorkflowInterceptorModules = [require.resolve('@temporalio/worker/lib/workflow-log-interceptor')];
for (const name of ['bundleWorkflowCode', 'WorkflowCodeBundler']) Object.defineProperty(exports, name, { get: () => require('${BUNDLER}.js')[name] });`;

for (const program of PROGRAMS) await bundleProgram(program);

/** Returns a plugin that changes the SDK of Temporal so that it works in a bundle, and the files that it has changed. */
function adaptSdk() {
  const changed = new Set();
  return {
    changed,
    sdk: {
      name: 'temporal-sdk',
      transform(/** @type {string} */ code, /** @type {string} */ id) {
        if (id.endsWith(`/node_modules/${BUNDLER}.js`)) return LAZY_BUNDLER;
        const place = [...PLACES, MESSAGES].find(([file]) => id.endsWith(`/node_modules/${file}`));
        if (place === undefined) return null;
        const [file, text, replacement] = place;
        if (code.includes(text)) changed.add(file);
        return code.replace(text, () => replacement);
      },
    },
  };
}

/** @param {ReadonlySet<string>} changed files of the SDK @param {readonly string[]} included @throws Error if the SDK is not as this module knows it */
function checkSdk(changed, included) {
  const places = [
    ...(included.includes('@temporalio/worker') ? PLACES : []),
    ...(included.includes('@temporalio/client') ? [MESSAGES] : []),
  ];
  for (const [file, text] of places)
    if (!changed.has(file))
      throw new Error(`the SDK of Temporal has no ${text} in ${file}: read what it does there now`);
}

/** @param {(typeof PROGRAMS)[number]} program */
async function bundleProgram({ target, input, included, chunks, warm }) {
  const { sdk, changed } = adaptSdk();
  const entries = Object.entries(input).map(([name, file]) => [name, join(ROOT, file)]);
  const bundle = await rolldown({
    input: Object.fromEntries(entries),
    platform: 'node',
    // The packages that an included package needs are included, too.
    external: (id, importer) =>
      OUTSIDE.includes(id) ||
      id === `${BUNDLER}.js` ||
      (/^[@a-z]/.test(id) && !included.includes(id) && !importer?.includes('/node_modules/')),
    plugins: [sdk],
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
    checkSdk(changed, included);
    for (const args of warm(made)) execFileSync(process.execPath, args, { timeout: 60_000 });
    rmSync(folder, { recursive: true, force: true });
    renameSync(made, folder);
  } finally {
    await bundle.close();
    rmSync(made, { recursive: true, force: true });
  }
}
