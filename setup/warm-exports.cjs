// Build step of bundle-programs.mjs: loads the worker or the HTTP API with its flags, and stores V8's compiled code next
// to each file.
const { loadCached } = require('../bin/load-cached.cjs');

loadCached(process.argv[2] ?? '').saveCaches();
process.exit();
