// Build step of bundle-programs.mjs: loads the worker, its thread of workflows or the HTTP API with its flags, and stores
// V8's compiled code next to each file.
const { isMainThread, Worker } = require('node:worker_threads');
const { loadCached } = require('../bin/load-cached.cjs');

const file = process.argv[2] ?? '';
// The module of the thread refuses the main thread.
if (isMainThread && file.endsWith('thread.cjs')) {
  new Worker(__filename, { argv: [file] }).on('exit', (code) => process.exit(code));
} else {
  loadCached(file).saveCaches();
  process.exit();
}
