// Build step of bundle-programs.mjs: loads the worker, with its flags, and keeps what V8 has compiled beside each file.
const { loadCached } = require('../bin/load-cached.cjs');

loadCached(process.argv[2] ?? '').saveCaches();
process.exit();
