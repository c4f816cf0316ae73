// The thread in which the worker's SDK of Temporal runs workflows. It is loaded from the worker's bundle.
const { join } = require('node:path');
const { loadCached } = require('./load-cached.cjs');

loadCached(join(__dirname, '..', 'dist', 'worker-bundle', 'workflow-thread.cjs'));
